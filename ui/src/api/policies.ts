/** What holds at a scope, with the scope that each part comes from. */
import { useQuery } from "@tanstack/react-query";
import { client, take } from "./client";
import { splitScope } from "./places";

export function useEffectivePolicy(scope: string) {
  const path = "/api/v1/policies/{kind}/{name}/effective";
  return useQuery({
    queryKey: [path, scope],
    queryFn: () => take(client.GET(path, { params: { path: splitScope(scope) } })),
  });
}

/** The effective policy of a scope, with the source of each part. */
import { useQuery } from "@tanstack/react-query";
import { client, unwrap } from "./client";
import { splitScope } from "./scopes";

export function useEffectivePolicy(scope: string) {
  const path = "/api/v1/policies/{kind}/{name}/effective";
  return useQuery({
    queryKey: [path, scope],
    queryFn: () => unwrap(client.GET(path, { params: { path: splitScope(scope) } })),
  });
}

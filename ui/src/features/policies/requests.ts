/** What is asked of the server about policies. */
import { useQuery } from "@tanstack/react-query";
import { useChange } from "../../api/changes";
import { client, ifMatch, type Schemas, unwrap } from "../../api/client";
import { loadPage } from "../../api/lists";
import { splitScope } from "../../api/scopes";
import type { Tree } from "../../forms/trees";

export type PolicyRecord = Schemas["PolicyRecord"];
export type EffectivePolicy = Schemas["EffectivePolicy"];
export type Verdict = Schemas["Verdict"];

type Body = Schemas["PolicyChange"];

/** The policy of a scope; null where nothing is said there. */
export function usePolicy(scope: string) {
  return useQuery({ queryKey: ["/api/v1/policies", "of", scope], queryFn: () => loadPolicy(scope) });
}

/** From the list: where nothing is said that is empty, and no failure. */
export async function loadPolicy(scope: string): Promise<PolicyRecord | null> {
  const page = await loadPage("/api/v1/policies", new URLSearchParams({ scope }));
  return page.items.find((policy) => policy.scope === scope) ?? null;
}

/** What a draft would refuse, while somebody types; nothing is kept. It can take seconds: no change waits for it. */
export function useVerdict(scope: string, content: Tree | null) {
  const path = "/api/v1/policies/{kind}/{name}/validate";
  return useQuery({
    queryKey: ["check", path, scope, JSON.stringify(content)],
    queryFn: () => unwrap(client.POST(path, { params: { path: splitScope(scope) }, body: content as Body })),
    enabled: content !== null,
    placeholderData: (before) => before,
    staleTime: 0,
    retry: false,
  });
}

interface PolicyTarget {
  scope: string;
  /** As it was read; null where there was none. */
  read: PolicyRecord | null;
  /** Also where files say what it is. */
  force: boolean;
}

export function useSave() {
  return useChange(({ content, ...target }: PolicyTarget & { content: Tree }) =>
    unwrap(
      client.PUT("/api/v1/policies/{kind}/{name}", { params: condition(target), body: content as Body }),
    ),
  );
}

export function useDelete() {
  return useChange((target: PolicyTarget) =>
    unwrap(client.DELETE("/api/v1/policies/{kind}/{name}", { params: condition(target) })),
  );
}

/** Where there was none when it was read, there must be none now: that is revision 0. */
function condition({ scope, read, force }: PolicyTarget) {
  return { path: splitScope(scope), query: { force }, header: ifMatch(read ?? { revision: 0 }) };
}

/** API requests for policies. */
import { useQuery } from "@tanstack/react-query";
import { useChange } from "../../api/changes";
import { client, ifMatch, type Schemas, unwrap } from "../../api/client";
import { loadPage } from "../../api/lists";
import { splitScope } from "../../api/scopes";
import type { Tree } from "../../forms/trees";

export type PolicyRecord = Schemas["PolicyRecord"];
export type EffectivePolicy = Schemas["EffectivePolicy"];
export type PolicyImpact = Schemas["PolicyImpact"];

type Body = Schemas["PolicyChange"];

/** The policy of a scope, or null if it has none. */
export function usePolicy(scope: string) {
  return useQuery({ queryKey: ["/api/v1/policies", "of", scope], queryFn: () => loadPolicy(scope) });
}

/** Reads the list, because a missing policy is not an error there. */
export async function loadPolicy(scope: string): Promise<PolicyRecord | null> {
  const page = await loadPage("/api/v1/policies", new URLSearchParams({ scope }));
  return page.items.find((policy) => policy.scope === scope) ?? null;
}

/**
 * Existing objects that a draft would reject. The query key does not start with the API path, so that saving does not
 * wait for this query to be refetched, which can take several seconds.
 */
export function useImpact(scope: string, content: Tree | null) {
  const path = "/api/v1/policies/{kind}/{name}/validate";
  return useQuery({
    queryKey: ["check", path, scope, JSON.stringify(content)],
    queryFn: () => unwrap(client.POST(path, { params: { path: splitScope(scope) }, body: content as Body })),
    enabled: content !== null,
    placeholderData: (previous) => previous,
    staleTime: 0,
    retry: false,
  });
}

interface PolicyTarget {
  scope: string;
  /** The loaded revision, or null if the scope had no policy. */
  original: PolicyRecord | null;
  /** Changes the policy even if files manage it. */
  force: boolean;
}

export function useSave() {
  return useChange(({ content, ...target }: PolicyTarget & { content: Tree }) =>
    unwrap(
      client.PUT("/api/v1/policies/{kind}/{name}", {
        params: conditionalParams(target),
        body: content as Body,
      }),
    ),
  );
}

export function useDelete() {
  return useChange((target: PolicyTarget) =>
    unwrap(client.DELETE("/api/v1/policies/{kind}/{name}", { params: conditionalParams(target) })),
  );
}

/** Revision 0 means that the scope must not have a policy yet. */
function conditionalParams({ scope, original, force }: PolicyTarget) {
  return { path: splitScope(scope), query: { force }, header: ifMatch(original ?? { revision: 0 }) };
}

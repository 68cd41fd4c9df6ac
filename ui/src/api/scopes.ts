/** The scopes of the organization tree. */
import type { Schemas } from "./client";
import { useAll } from "./lists";

export type Scope = Schemas["ScopeRecord"];

export function useScopes() {
  return useAll("/api/v1/scopes");
}

/** The scopes above a scope, nearest first. */
export function ancestorsOf(scopes: Scope[], scope: string): string[] {
  const parents = new Map(scopes.map((record) => [record.scope, record.parent]));
  const ancestors: string[] = [];
  let parent = parents.get(scope);
  while (parent && !ancestors.includes(parent)) {
    ancestors.push(parent);
    parent = parents.get(parent);
  }
  return ancestors;
}

export function childrenOf(scopes: Scope[], scope: string): Scope[] {
  return scopes
    .filter((record) => record.parent === scope)
    .sort((one, other) => one.kind.localeCompare(other.kind) || one.name.localeCompare(other.name));
}

/** The scopes whose names contain the search text, and their ancestors. */
export function matching(scopes: Scope[], search: string): Scope[] {
  const text = search.trim().toLowerCase();
  const hits = scopes.filter((record) => record.name.toLowerCase().includes(text));
  const visible = new Set(hits.flatMap((record) => [record.scope, ...ancestorsOf(scopes, record.scope)]));
  return scopes.filter((record) => visible.has(record.scope));
}

/** The cluster that a scope belongs to; null for scopes above the clusters. */
export function clusterOf(scopes: Scope[], scope: string): string | null {
  return [scope, ...ancestorsOf(scopes, scope)].find((above) => above.startsWith("cluster/")) ?? null;
}

/** The kind and name of a scope, as in policy URLs. */
export function splitScope(scope: string): {
  kind: "platform" | "cluster" | "department" | "project";
  name: string;
} {
  const [kind, name] = scope.split("/", 2);
  return { kind: kind as "platform", name: name ?? "platform" };
}

/** The organization: scopes, and which stands below which. */
import type { Schemas } from "./client";
import { useAll } from "./lists";

export type Scope = Schemas["ScopeRecord"];

export function useScopes() {
  return useAll("/api/v1/scopes");
}

/** The scopes above one, the nearest first. */
export function ancestorsOf(scopes: Scope[], scope: string): string[] {
  const parents = new Map(scopes.map((record) => [record.scope, record.parent]));
  const found: string[] = [];
  let parent = parents.get(scope);
  while (parent && !found.includes(parent)) {
    found.push(parent);
    parent = parents.get(parent);
  }
  return found;
}

export function childrenOf(scopes: Scope[], scope: string): Scope[] {
  return scopes
    .filter((record) => record.parent === scope)
    .sort((one, other) => one.kind.localeCompare(other.kind) || one.name.localeCompare(other.name));
}

/** The places with a text in their names, and those above them. */
export function matching(scopes: Scope[], search: string): Scope[] {
  const wanted = search.trim().toLowerCase();
  const hits = scopes.filter((record) => record.name.toLowerCase().includes(wanted));
  const kept = new Set(hits.flatMap((record) => [record.scope, ...ancestorsOf(scopes, record.scope)]));
  return scopes.filter((record) => kept.has(record.scope));
}

/** The cluster that a scope is on, or none above all clusters. */
export function clusterOf(scopes: Scope[], scope: string): string | null {
  return [scope, ...ancestorsOf(scopes, scope)].find((above) => above.startsWith("cluster/")) ?? null;
}

/** A scope as part of the addresses of policies: the kind and the name. */
export function splitScope(scope: string): {
  kind: "platform" | "cluster" | "department" | "project";
  name: string;
} {
  const [kind, name] = scope.split("/", 2);
  return { kind: kind as "platform", name: name ?? "platform" };
}

/** The organization: places, and which stands below which. */
import type { Schemas } from "./client";
import { useAll } from "./lists";

export type Place = Schemas["PlaceRecord"];

export function usePlaces() {
  return useAll("/api/v1/scopes");
}

/** The scopes above one, the nearest first. */
export function ancestorsOf(places: Place[], scope: string): string[] {
  const parents = new Map(places.map((place) => [place.scope, place.parent]));
  const found: string[] = [];
  let parent = parents.get(scope);
  while (parent && !found.includes(parent)) {
    found.push(parent);
    parent = parents.get(parent);
  }
  return found;
}

export function childrenOf(places: Place[], scope: string): Place[] {
  return places
    .filter((place) => place.parent === scope)
    .sort((one, other) => one.kind.localeCompare(other.kind) || one.name.localeCompare(other.name));
}

/** The places with a text in their names, and those above them. */
export function matching(places: Place[], search: string): Place[] {
  const wanted = search.trim().toLowerCase();
  const hits = places.filter((place) => place.name.toLowerCase().includes(wanted));
  const kept = new Set(hits.flatMap((place) => [place.scope, ...ancestorsOf(places, place.scope)]));
  return places.filter((place) => kept.has(place.scope));
}

/** The cluster that a scope is on, or none above all clusters. */
export function clusterOf(places: Place[], scope: string): string | null {
  return [scope, ...ancestorsOf(places, scope)].find((above) => above.startsWith("cluster/")) ?? null;
}

/** A scope as part of the addresses of policies: the kind and the name. */
export function splitScope(scope: string): {
  kind: "platform" | "cluster" | "department" | "project";
  name: string;
} {
  const [kind, name] = scope.split("/", 2);
  return { kind: kind as "platform", name: name ?? "platform" };
}

/** Who is signed in, and what they may do where. */
import { useQuery } from "@tanstack/react-query";
import { client, take } from "./client";
import { ancestorsOf, usePlaces } from "./places";

const ME = "/api/v1/me";

export function useMe() {
  return useQuery({ queryKey: [ME], queryFn: () => take(client.GET(ME)), staleTime: 60_000 });
}

type Role = "admin" | "editor" | "member" | "viewer";

/** Whether somebody offers anywhere; where exactly, a form asks. */
export function useIsEditor(): boolean {
  return useMe().data?.roles.some((held) => held.role === "admin" || held.role === "editor") ?? false;
}

/** Tells whether somebody has one of the roles at a scope or above it. The server has the last word. */
export function useMay(): (role: Exclude<Role, "viewer">, scope: string) => boolean {
  const me = useMe();
  const places = usePlaces();
  return (role, scope) => {
    if (!me.data) return false;
    const reach = [scope, ...ancestorsOf(places.data ?? [], scope), "platform"];
    return me.data.roles.some(
      (held) => reach.includes(held.scope ?? "") && (held.role === role || held.role === "admin"),
    );
  };
}

/** The projects in which somebody may submit runs, by name; undefined until it is known. */
export function useOwnProjects(): string[] | undefined {
  const may = useMay();
  const places = usePlaces();
  return places.data
    ?.filter((place) => place.kind === "project" && may("member", place.scope))
    .map((place) => place.name)
    .sort((one, other) => one.localeCompare(other));
}

/** Who is signed in, and what they may do where. */
import { useQuery } from "@tanstack/react-query";
import { client, unwrap } from "./client";
import { ancestorsOf, useScopes } from "./scopes";

const ME = "/api/v1/me";

export function useMe() {
  return useQuery({ queryKey: [ME], queryFn: () => unwrap(client.GET(ME)), staleTime: 60_000 });
}

type Role = "admin" | "editor" | "member" | "viewer";

/** Whether somebody offers anywhere; where exactly, a form asks. */
export function useIsEditor(): boolean {
  return useMe().data?.roles.some((held) => held.role === "admin" || held.role === "editor") ?? false;
}

/** Tells whether somebody has one of the roles at a scope or above it. The server has the last word. */
export function useMay(): (role: Exclude<Role, "viewer">, scope: string) => boolean {
  const me = useMe();
  const scopes = useScopes();
  return (role, scope) => {
    if (!me.data) return false;
    const reach = [scope, ...ancestorsOf(scopes.data ?? [], scope), "platform"];
    return me.data.roles.some(
      (held) => reach.includes(held.scope ?? "") && (held.role === role || held.role === "admin"),
    );
  };
}

/** The projects in which somebody may submit runs, by name; undefined until it is known. */
export function useOwnProjects(): string[] | undefined {
  const may = useMay();
  const scopes = useScopes();
  return scopes.data
    ?.filter((record) => record.kind === "project" && may("member", record.scope))
    .map((record) => record.name)
    .sort((one, other) => one.localeCompare(other));
}

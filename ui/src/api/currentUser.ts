/** The current user and their roles. */
import { useQuery } from "@tanstack/react-query";
import { client, unwrap } from "./client";
import { ancestorsOf, useScopes } from "./scopes";

const ME = "/api/v1/me";

export function useMe() {
  return useQuery({ queryKey: [ME], queryFn: () => unwrap(client.GET(ME)), staleTime: 60_000 });
}

type Role = "admin" | "editor" | "member" | "viewer";

/** Whether the user is an editor or administrator of any scope. Forms check the selected scope. */
export function useIsEditor(): boolean {
  return useMe().data?.roles.some((grant) => grant.role === "admin" || grant.role === "editor") ?? false;
}

/**
 * Returns a function that checks whether the user has a role in a scope or one of its ancestors. It only controls what
 * the UI shows; the server enforces permissions.
 */
export function useMay(): (role: Exclude<Role, "viewer">, scope: string) => boolean {
  const me = useMe();
  const scopes = useScopes();
  return (role, scope) => {
    if (!me.data) return false;
    // The platform is included, because its roles apply even before the scopes are loaded.
    const path = [scope, ...ancestorsOf(scopes.data ?? [], scope), "platform"];
    return me.data.roles.some(
      (grant) => path.includes(grant.scope ?? "") && (grant.role === role || grant.role === "admin"),
    );
  };
}

/** The names of the projects where the user can submit runs; undefined while loading. */
export function useOwnProjects(): string[] | undefined {
  const may = useMay();
  const scopes = useScopes();
  return scopes.data
    ?.filter((record) => record.kind === "project" && may("member", record.scope))
    .map((record) => record.name)
    .sort((one, other) => one.localeCompare(other));
}

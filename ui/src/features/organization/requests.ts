/** API requests about scopes and roles. */
import { flushSync } from "react-dom";
import { useChange } from "../../api/changes";
import { client, ifMatch, type Schemas, unwrap } from "../../api/client";
import { useAll } from "../../api/lists";
import { ancestorsOf, type Scope } from "../../api/scopes";
import { loadSettings, SETTINGS } from "../../api/settings";
import type { Kind } from "./kinds";

export type Grant = Schemas["GrantRecord"];
/** The request body for a scope. Clusters have more fields than a name and a parent. */
export type ScopeBody = { name?: string; parent?: string } & Partial<Schemas["Cluster"]>;

const BASES = {
  cluster: "/api/v1/clusters",
  department: "/api/v1/departments",
  project: "/api/v1/projects",
} as const;

/** The path for a kind. It is always typed as a cluster path, because the paths of all kinds have the same shape. */
function at<Rest extends string>(kind: string, rest: Rest): `/api/v1/clusters${Rest}` {
  return `${BASES[kind as Kind]}${rest}` as `/api/v1/clusters${Rest}`;
}

/** Called with the new record, or with undefined after a deletion. */
type Done = (after: Scope | undefined) => void;

export function useCreateScope(kind: Kind, onDone: Done) {
  return useTreeChange<ScopeBody>(
    (written) => unwrap(client.POST(at(kind, ""), { body: written as Schemas["Cluster"] })),
    null,
    onDone,
  );
}

/** `over` is another user's revision that the change overwrites. */
export function useEditScope(read: Scope, onDone: Done) {
  return useTreeChange<{ change: ScopeBody; over?: Scope }>(
    ({ change, over = read }) =>
      unwrap(
        client.PATCH(at(read.kind, "/{name}"), {
          params: condition(over),
          body: change as Schemas["ClusterChange"],
        }),
      ),
    read,
    onDone,
  );
}

export function loadScope({ kind, name }: Scope): Promise<Scope> {
  return unwrap(client.GET(at(kind, "/{name}"), { params: { path: { name } } }));
}

export function useDeleteScope(read: Scope, onDone: Done) {
  return useTreeChange<void>(
    () => unwrap(client.DELETE(at(read.kind, "/{name}"), { params: condition(read) })) as Promise<undefined>,
    read,
    onDone,
  );
}

/** Makes a cluster the default cluster, in which new departments and projects are created. */
export function useMakeDefault() {
  return useChange(async (cluster: string) => {
    const settings = await loadSettings();
    return unwrap(
      client.PUT(SETTINGS, {
        params: { header: ifMatch(settings) },
        body: { defaults: settings.defaults, default_cluster: cluster } as Schemas["SettingsRequest"],
      }),
    );
  });
}

function condition(read: Scope) {
  return { path: { name: read.name }, header: ifMatch(read) };
}

function useTreeChange<Input>(
  mutationFn: (input: Input) => Promise<Scope | undefined>,
  before: Scope | null,
  onDone: Done,
) {
  return useChange(mutationFn, (after, queries) => {
    queries.setQueriesData<Scope[]>(
      { queryKey: ["/api/v1/scopes", {}, "all"] },
      (scopes) => scopes && replaceScope(scopes, before, after),
    );
    // Unmount the old scope before the queries are refetched, because its old path returns 404.
    flushSync(() => onDone(after));
  });
}

/** The list of scopes after one was created, changed or deleted. Children of a renamed scope get the new parent. */
export function replaceScope(scopes: Scope[], before: Scope | null, after: Scope | undefined): Scope[] {
  const others = scopes
    .filter((record) => record.id !== before?.id)
    .map((record) =>
      before && after && record.parent === before.scope ? { ...record, parent: after.scope } : record,
    );
  return after ? [...others, after] : others;
}

/** The roles that apply to a scope, nearest first. The server lists only roles in scopes that the user administers. */
export function useRoles(scopes: Scope[], scope: string) {
  const path = [scope, ...ancestorsOf(scopes, scope)];
  const result = useAll("/api/v1/roles", { scope: path.join(",") });
  const roles = result.data?.toSorted((one, other) => path.indexOf(one.scope) - path.indexOf(other.scope));
  return { ...result, data: roles };
}

export function useAddRole() {
  return useChange((grant: Schemas["Grant"]) => unwrap(client.POST("/api/v1/roles", { body: grant })));
}

export function useRemoveRole() {
  return useChange((grant: Grant) =>
    unwrap(
      client.DELETE("/api/v1/roles/{role_id}", {
        params: { path: { role_id: grant.id }, header: ifMatch(grant) },
      }),
    ),
  );
}

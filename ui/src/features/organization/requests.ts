/** What is asked of the server about places and roles. */
import { flushSync } from "react-dom";
import { useChange } from "../../api/changes";
import { client, ifMatch, type Schemas, unwrap } from "../../api/client";
import { useAll } from "../../api/lists";
import { ancestorsOf, type Scope } from "../../api/scopes";
import type { Kind } from "./kinds";

export type Grant = Schemas["GrantRecord"];
/** What a form sends of a place; of a cluster more than its name and parent. */
export type ScopeBody = { name?: string; parent?: string } & Partial<Schemas["Cluster"]>;

const BASES = {
  cluster: "/api/v1/clusters",
  department: "/api/v1/departments",
  project: "/api/v1/projects",
} as const;

/** The addresses of one kind. Those of the three are the same but for their beginning. */
function at<Rest extends string>(kind: string, rest: Rest): `/api/v1/clusters${Rest}` {
  return `${BASES[kind as Kind]}${rest}` as `/api/v1/clusters${Rest}`;
}

/** `onDone` shows the place that is there now: after a deletion, nothing. */
type Done = (after: Scope | undefined) => void;

export function useCreateScope(kind: Kind, onDone: Done) {
  return useTreeChange<ScopeBody>(
    (written) => unwrap(client.POST(at(kind, ""), { body: written as Schemas["Cluster"] })),
    null,
    onDone,
  );
}

/** `over` is what somebody else saved meanwhile, where one's own is to replace it. */
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

/** Only as it was read. */
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
    // A renamed or deleted place must be out of sight before all is read again: its old address is gone.
    flushSync(() => onDone(after));
  });
}

/** The places with one of them made, changed or gone; what stands below it follows. */
export function replaceScope(scopes: Scope[], before: Scope | null, after: Scope | undefined): Scope[] {
  const others = scopes
    .filter((record) => record.id !== before?.id)
    .map((record) =>
      before && after && record.parent === before.scope ? { ...record, parent: after.scope } : record,
    );
  return after ? [...others, after] : others;
}

/** The roles that hold at a scope, the nearest first. Told are those at scopes that one governs. */
export function useRoles(scopes: Scope[], scope: string) {
  const reach = [scope, ...ancestorsOf(scopes, scope)];
  const found = useAll("/api/v1/roles", { scope: reach.join(",") });
  const roles = found.data?.toSorted((one, other) => reach.indexOf(one.scope) - reach.indexOf(other.scope));
  return { ...found, data: roles };
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

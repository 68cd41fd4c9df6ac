/** What is asked of the server about places and roles. */
import { flushSync } from "react-dom";
import { useChange } from "../../api/changes";
import { client, ifMatch, type Schemas, take } from "../../api/client";
import { useAll } from "../../api/lists";
import { ancestorsOf, type Place } from "../../api/places";
import type { Kind } from "./kinds";

export type Grant = Schemas["GrantRecord"];
/** What a form sends of a place; of a cluster more than its name and parent. */
export type WrittenPlace = { name?: string; parent?: string } & Partial<Schemas["Cluster"]>;

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
type Done = (after: Place | undefined) => void;

export function useCreatePlace(kind: Kind, onDone: Done) {
  return useTreeChange<WrittenPlace>(
    (written) => take(client.POST(at(kind, ""), { body: written as Schemas["Cluster"] })),
    null,
    onDone,
  );
}

/** `over` is what somebody else saved meanwhile, where one's own is to replace it. */
export function useEditPlace(read: Place, onDone: Done) {
  return useTreeChange<{ change: WrittenPlace; over?: Place }>(
    ({ change, over = read }) =>
      take(
        client.PATCH(at(read.kind, "/{name}"), {
          params: condition(over),
          body: change as Schemas["ClusterChange"],
        }),
      ),
    read,
    onDone,
  );
}

export function loadPlace({ kind, name }: Place): Promise<Place> {
  return take(client.GET(at(kind, "/{name}"), { params: { path: { name } } }));
}

export function useDeletePlace(read: Place, onDone: Done) {
  return useTreeChange<void>(
    () => take(client.DELETE(at(read.kind, "/{name}"), { params: condition(read) })) as Promise<undefined>,
    read,
    onDone,
  );
}

/** Only as it was read. */
function condition(read: Place) {
  return { path: { name: read.name }, header: ifMatch(read) };
}

function useTreeChange<Input>(
  mutationFn: (input: Input) => Promise<Place | undefined>,
  before: Place | null,
  onDone: Done,
) {
  return useChange(mutationFn, (after, queries) => {
    queries.setQueriesData<Place[]>(
      { queryKey: ["/api/v1/scopes", {}, "all"] },
      (places) => places && replacePlace(places, before, after),
    );
    // A renamed or deleted place must be out of sight before all is read again: its old address is gone.
    flushSync(() => onDone(after));
  });
}

/** The places with one of them made, changed or gone; what stands below it follows. */
export function replacePlace(places: Place[], before: Place | null, after: Place | undefined): Place[] {
  const others = places
    .filter((place) => place.id !== before?.id)
    .map((place) =>
      before && after && place.parent === before.scope ? { ...place, parent: after.scope } : place,
    );
  return after ? [...others, after] : others;
}

/** The roles that hold at a scope, the nearest first. Told are those at scopes that one governs. */
export function useRoles(places: Place[], scope: string) {
  const reach = [scope, ...ancestorsOf(places, scope)];
  const found = useAll("/api/v1/roles", { scope: reach.join(",") });
  const roles = found.data?.toSorted((one, other) => reach.indexOf(one.scope) - reach.indexOf(other.scope));
  return { ...found, data: roles };
}

export function useAddRole() {
  return useChange((grant: Schemas["Grant"]) => take(client.POST("/api/v1/roles", { body: grant })));
}

export function useRemoveRole() {
  return useChange((grant: Grant) =>
    take(
      client.DELETE("/api/v1/roles/{role_id}", {
        params: { path: { role_id: grant.id }, header: ifMatch(grant) },
      }),
    ),
  );
}

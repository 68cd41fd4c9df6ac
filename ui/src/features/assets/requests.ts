/** What is asked of the server about compute resources and templates, which have the same habits. */
import { useQuery } from "@tanstack/react-query";
import { useChange } from "../../api/changes";
import { client, ifMatch, type Schemas, unwrap } from "../../api/client";

export interface AssetKind {
  /** Where the API has them. */
  base: "/api/v1/compute-resources" | "/api/v1/templates";
  /** Where the page has them. */
  path: "/compute-resources" | "/templates";
  /** Where a new one is made: not below the path, where one may be called "new". */
  newPath: string;
  noun: string;
  nouns: string;
}

type Kept = Schemas["ComputeResourceRecord"];
/** What both have; the rest belongs to one of them. */
export type Asset = Omit<Kept, "workload_types" | "templates"> &
  Partial<Pick<Kept, "workload_types" | "templates"> & Pick<Schemas["TemplateRecord"], "compute_resource">>;
/** What a form sends; the server understands more spellings than its description can say. */
export interface WrittenAsset {
  name: string;
  description: string;
  scope: string;
  requirements: Record<string, unknown>;
  workload_types?: string[] | null;
}

type Base = "/api/v1/compute-resources";
type Body = Schemas["ComputeResource"];

/** The addresses of one kind. Those of templates are the same but for their beginning. */
function at<Rest extends string>(kind: AssetKind, rest: Rest): `${Base}${Rest}` {
  return `${kind.base}${rest}` as `${Base}${Rest}`;
}

/** By its name, or by its id whatever it is called now. */
export function loadAsset(kind: AssetKind, name: string): Promise<Asset> {
  return unwrap(client.GET(at(kind, "/{name}"), { params: { path: { name } } }));
}

export function useAsset(kind: AssetKind, name: string | undefined) {
  return useQuery({
    queryKey: [kind.base, name],
    queryFn: () => loadAsset(kind, name!),
    enabled: name !== undefined,
  });
}

export function useRevisions(kind: AssetKind, name: string) {
  return useQuery({
    queryKey: [kind.base, name, "revisions"],
    queryFn: () => unwrap(client.GET(at(kind, "/{name}/revisions"), { params: { path: { name } } })),
  });
}

export function useDifferences(kind: AssetKind, name: string, old: number, now: number) {
  return useQuery({
    queryKey: [kind.base, name, "diff", old, now],
    queryFn: () =>
      unwrap(client.GET(at(kind, "/{name}/diff"), { params: { path: { name }, query: { old, new: now } } })),
    enabled: old > 0,
  });
}

export function useWorkloads(kind: AssetKind, id: string) {
  return useQuery({
    queryKey: [kind.base, id, "workloads"],
    queryFn: () =>
      unwrap(
        client.GET(at(kind, "/{name}/workloads"), { params: { path: { name: id }, query: { limit: 500 } } }),
      ),
  });
}

/** What would be wrong with one, and what it means for a pod, while somebody types: no change waits for it. */
export function useCheck(kind: AssetKind, written: WrittenAsset | null) {
  return useQuery({
    queryKey: ["check", kind.base, JSON.stringify(written)],
    queryFn: () => unwrap(client.POST(at(kind, "/check"), { body: written as Body })),
    enabled: written !== null,
    placeholderData: (before) => before,
    staleTime: 0,
    retry: false,
  });
}

export function useCreate(kind: AssetKind) {
  return useChange((written: WrittenAsset) => unwrap(client.POST(at(kind, ""), { body: written as Body })));
}

export function useEdit(kind: AssetKind) {
  return useChange(({ read, change }: { read: Asset; change: Partial<WrittenAsset> }) =>
    unwrap(client.PATCH(at(kind, "/{name}"), { params: condition(read), body: change as Body })),
  );
}

export function useDelete(kind: AssetKind) {
  return useChange((read: Asset) => unwrap(client.DELETE(at(kind, "/{name}"), { params: condition(read) })));
}

export function useArchive(kind: AssetKind) {
  return useChange(({ read, successor }: { read: Asset; successor: string | null }) =>
    unwrap(client.POST(at(kind, "/{name}/archive"), { params: condition(read), body: { successor } })),
  );
}

export function useRestore(kind: AssetKind) {
  return useChange((read: Asset) =>
    unwrap(client.POST(at(kind, "/{name}/restore"), { params: condition(read) })),
  );
}

/** By its id, whatever it is called now; and only as it was read. */
function condition(read: Asset) {
  return { path: { name: read.id }, header: ifMatch(read) };
}

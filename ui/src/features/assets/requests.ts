/** API requests for compute resources and templates, which have the same endpoints. */
import { useQuery } from "@tanstack/react-query";
import { useChange } from "../../api/changes";
import { client, ifMatch, type Schemas, unwrap } from "../../api/client";

export interface AssetKind {
  /** The collection's path in the API. */
  apiPath: "/api/v1/compute-resources" | "/api/v1/templates";
  /** The table's path in the web UI. */
  path: "/compute-resources" | "/templates";
  /** Path of the form for a new asset. It is not under `path`, because an asset may be named "new". */
  newPath: string;
  noun: string;
  nouns: string;
}

type ComputeResourceRecord = Schemas["ComputeResourceRecord"];
/** Optional fields exist on only one of the two kinds. */
export type Asset = Omit<ComputeResourceRecord, "workload_types" | "templates"> &
  Partial<
    Pick<ComputeResourceRecord, "workload_types" | "templates"> &
      Pick<Schemas["TemplateRecord"], "compute_resource">
  >;
/** The request body from a form. The server accepts more notations than its OpenAPI schema describes. */
export interface AssetBody {
  name: string;
  description: string;
  scope: string;
  requirements: Record<string, unknown>;
  workload_types?: string[] | null;
}

type Base = "/api/v1/compute-resources";
type Body = Schemas["ComputeResource"];

/** Path of an endpoint. Both kinds use the compute resource types, because only the prefix differs. */
function endpoint<Rest extends string>(kind: AssetKind, rest: Rest): `${Base}${Rest}` {
  return `${kind.apiPath}${rest}` as `${Base}${Rest}`;
}

/** Loads an asset by name or by ID. Renaming an asset does not change its ID. */
export function loadAsset(kind: AssetKind, name: string): Promise<Asset> {
  return unwrap(client.GET(endpoint(kind, "/{name}"), { params: { path: { name } } }));
}

export function useAsset(kind: AssetKind, name: string | undefined) {
  return useQuery({
    queryKey: [kind.apiPath, name],
    queryFn: () => loadAsset(kind, name!),
    enabled: name !== undefined,
  });
}

export function useRevisions(kind: AssetKind, name: string) {
  return useQuery({
    queryKey: [kind.apiPath, name, "revisions"],
    queryFn: () => unwrap(client.GET(endpoint(kind, "/{name}/revisions"), { params: { path: { name } } })),
  });
}

export function useDifferences(kind: AssetKind, name: string, older: number, newer: number) {
  return useQuery({
    queryKey: [kind.apiPath, name, "diff", older, newer],
    queryFn: () =>
      unwrap(
        client.GET(endpoint(kind, "/{name}/diff"), {
          params: { path: { name }, query: { old: older, new: newer } },
        }),
      ),
    enabled: older > 0,
  });
}

export function useWorkloads(kind: AssetKind, id: string) {
  return useQuery({
    queryKey: [kind.apiPath, id, "workloads"],
    queryFn: () =>
      unwrap(
        client.GET(endpoint(kind, "/{name}/workloads"), {
          params: { path: { name: id }, query: { limit: 500 } },
        }),
      ),
  });
}

/**
 * Validates a draft and summarizes what each pod gets. The query key does not start with the API path, so that saving
 * does not wait for this query to be refetched.
 */
export function useCheck(kind: AssetKind, body: AssetBody | null) {
  return useQuery({
    queryKey: ["check", kind.apiPath, JSON.stringify(body)],
    queryFn: () => unwrap(client.POST(endpoint(kind, "/check"), { body: body as Body })),
    enabled: body !== null,
    placeholderData: (previous) => previous,
    staleTime: 0,
    retry: false,
  });
}

export function useCreate(kind: AssetKind) {
  return useChange((body: AssetBody) => unwrap(client.POST(endpoint(kind, ""), { body: body as Body })));
}

export function useEdit(kind: AssetKind) {
  return useChange(({ asset, change }: { asset: Asset; change: Partial<AssetBody> }) =>
    unwrap(
      client.PATCH(endpoint(kind, "/{name}"), { params: conditionalParams(asset), body: change as Body }),
    ),
  );
}

export function useDelete(kind: AssetKind) {
  return useChange((asset: Asset) =>
    unwrap(client.DELETE(endpoint(kind, "/{name}"), { params: conditionalParams(asset) })),
  );
}

export function useArchive(kind: AssetKind) {
  return useChange(({ asset, successor }: { asset: Asset; successor: string | null }) =>
    unwrap(
      client.POST(endpoint(kind, "/{name}/archive"), {
        params: conditionalParams(asset),
        body: { successor },
      }),
    ),
  );
}

export function useRestore(kind: AssetKind) {
  return useChange((asset: Asset) =>
    unwrap(client.POST(endpoint(kind, "/{name}/restore"), { params: conditionalParams(asset) })),
  );
}

/** Identifies an asset by ID. With If-Match, the request succeeds only for the loaded revision. */
function conditionalParams(asset: Asset) {
  return { path: { name: asset.id }, header: ifMatch(asset) };
}

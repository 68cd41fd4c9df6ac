/** Total and free cluster capacity, and how many more runs of each compute resource fit now. */
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { client, type Schemas, unwrap } from "./client";

export type Capacity = Schemas["Capacity"];
export type Pool = Schemas["Pool"];
export type Offer = Schemas["ComputeResourceCapacity"];
export type ClusterNode = Schemas["NodeView"];

/** A compute resource's capacity across all visible clusters: the total, and the count per cluster. */
export interface TotalOffer extends Offer {
  clusters: (Offer & { cluster: string })[];
}

const CAPACITY = "/api/v1/capacity";
const NODES = "/api/v1/nodes";
// Users watch the capacity page live. Elsewhere, the numbers are only a hint and are requested less often.
const OFFERS_EVERY_MS = 30_000;
const WATCHED_EVERY_MS = 5_000;
/** Above this number of nodes, responses are several megabytes in size, so they are requested less often. */
const MANY_NODES = 1_000;
const MANY_EVERY_MS = 15_000;

/** Capacity of all visible clusters. With a project: only its cluster and the compute resources available to it. */
export function useCapacity(project?: string) {
  return useQuery({
    ...capacityQuery(project),
    refetchInterval: WATCHED_EVERY_MS,
    placeholderData: keepPreviousData,
  });
}

/** How many more runs fit now, keyed by compute resource. With a project: only resources available to it. */
export function useOffers(project?: string) {
  return useQuery({ ...capacityQuery(project), refetchInterval: OFFERS_EVERY_MS, select: sumUp });
}

export function useNodes(cluster: string | null) {
  return useQuery({
    queryKey: [NODES, cluster],
    queryFn: () => unwrap(client.GET(NODES, { params: { query: { cluster } } })),
    enabled: cluster !== null,
    refetchInterval: ({ state }) =>
      (state.data?.length ?? 0) > MANY_NODES ? MANY_EVERY_MS : WATCHED_EVERY_MS,
  });
}

function capacityQuery(project?: string) {
  return {
    queryKey: [CAPACITY, project ?? null],
    queryFn: () => unwrap(client.GET(CAPACITY, { params: { query: { project: project ?? null } } })),
  };
}

/** Cached totals. Every table row needs them, so they are computed only once per response. */
const sums = new WeakMap<Capacity[], Map<string, TotalOffer>>();

export function sumUp(capacities: Capacity[]): Map<string, TotalOffer> {
  const totals = sums.get(capacities) ?? new Map<string, TotalOffer>();
  if (sums.has(capacities)) return totals;
  sums.set(capacities, totals);
  for (const { cluster, compute_resources } of capacities) {
    for (const offer of compute_resources) {
      const before = totals.get(offer.name);
      const clusters = [...(before?.clusters ?? []), { ...offer, cluster }];
      totals.set(offer.name, before ? add(before, offer, clusters) : { ...offer, clusters });
    }
  }
  return totals;
}

/** Adds a cluster's count to the total. Unknown counts are skipped. */
function add(before: TotalOffer, offer: Offer, clusters: TotalOffer["clusters"]): TotalOffer {
  const known = [before.fits_now, offer.fits_now].filter((count) => count !== null);
  const fits_now = known.length > 0 ? known.reduce((sum, count) => sum + count, 0) : null;
  // A reason is only needed if the compute resource fits nowhere.
  const message = fits_now ? "" : before.message || offer.message;
  return { ...before, fits_now, more: before.more || offer.more, message, clusters };
}

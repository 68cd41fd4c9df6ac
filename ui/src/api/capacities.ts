/** What clusters have, what is free of it, and how many more of each compute resource fit there now. */
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { client, type Schemas, unwrap } from "./client";

export type Capacity = Schemas["Capacity"];
export type Pool = Schemas["Pool"];
export type Offer = Schemas["Offer"];
export type ClusterNode = Schemas["NodeView"];

/** One over all clusters in sight: the sum, and what each of them says. */
export interface TotalOffer extends Offer {
  clusters: (Offer & { cluster: string })[];
}

const CAPACITY = "/api/v1/capacity";
const NODES = "/api/v1/nodes";
const OFFERS_EVERY_MS = 30_000;
const WATCHED_EVERY_MS = 5_000;
/** More nodes than these are some megabytes, and asked for less often. */
const MANY_NODES = 1_000;
const MANY_EVERY_MS = 15_000;

/** The clusters that one sees, or that of a project with the compute resources that it can choose. */
export function useCapacity(project?: string) {
  return useQuery({ ...ask(project), refetchInterval: WATCHED_EVERY_MS, placeholderData: keepPreviousData });
}

/** How many more of each compute resource fit now, by its name; with a project, of those that it can choose. */
export function useOffers(project?: string) {
  return useQuery({ ...ask(project), refetchInterval: OFFERS_EVERY_MS, select: sumUp });
}

/** The nodes of a cluster. */
export function useNodes(cluster: string | null) {
  return useQuery({
    queryKey: [NODES, cluster],
    queryFn: () => unwrap(client.GET(NODES, { params: { query: { cluster } } })),
    enabled: cluster !== null,
    refetchInterval: ({ state }) =>
      (state.data?.length ?? 0) > MANY_NODES ? MANY_EVERY_MS : WATCHED_EVERY_MS,
  });
}

function ask(project?: string) {
  return {
    queryKey: [CAPACITY, project ?? null],
    queryFn: () => unwrap(client.GET(CAPACITY, { params: { query: { project: project ?? null } } })),
  };
}

/** Each row of a table asks for it: the same answer is summed up once. */
const summed = new WeakMap<Capacity[], Map<string, TotalOffer>>();

export function sumUp(capacities: Capacity[]): Map<string, TotalOffer> {
  const found = summed.get(capacities) ?? new Map<string, TotalOffer>();
  if (summed.has(capacities)) return found;
  summed.set(capacities, found);
  for (const { cluster, compute_resources } of capacities) {
    for (const offer of compute_resources) {
      const before = found.get(offer.name);
      const clusters = [...(before?.clusters ?? []), { ...offer, cluster }];
      found.set(offer.name, before ? add(before, offer, clusters) : { ...offer, clusters });
    }
  }
  return found;
}

/** Where nobody can tell of one cluster, what the others have is still known. */
function add(before: TotalOffer, offer: Offer, clusters: TotalOffer["clusters"]): TotalOffer {
  const known = [before.fits_now, offer.fits_now].filter((count) => count !== null);
  const fits_now = known.length > 0 ? known.reduce((sum, count) => sum + count, 0) : null;
  const message = fits_now ? "" : before.message || offer.message;
  return { ...before, fits_now, more: before.more || offer.more, message, clusters };
}

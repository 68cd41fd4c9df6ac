/** Requests more memory for a run. If its compute resource sets the memory, selects a larger compute resource. */
import type { Plan } from "../../../api/plans";
import type { Request } from "../../../api/runs";
import { numberOf } from "../../../format/amounts";
import { showByteQuantity } from "../../../forms/quantities";
import type { Tree } from "../../../forms/trees";
import { merge } from "./drafts";

interface Candidate {
  name: string;
  requirements: Record<string, unknown>;
}

export interface LargerRequest {
  request: Request;
  /** Explains a selection that the user may not expect. */
  note?: string;
}

export function requestMemory(
  request: Request,
  mem: string,
  plan: Plan,
  candidates: Candidate[],
): LargerRequest {
  const owner = plan.settings.find(
    ({ path, source }) => path === "resources.mem.requests" && source.layer === "compute_resource",
  )?.source.name;
  const larger = merge(request, { resources: { mem: { requests: mem, limits: mem } } });
  if (!owner) return { request: larger };
  // The compute resource would override the memory in the request.
  const other = findLarger(candidates, owner, mem);
  if (other) {
    const note = `${owner} has too little memory. Selected ${other.name}, which has at least ${showByteQuantity(mem)}.`;
    return { request: merge(request, { profile: other.name }), note };
  }
  const note = `${owner} sets the memory, and no similar compute resource has at least ${showByteQuantity(mem)}. Select a different one, or none.`;
  return { request: larger, note };
}

/** Finds the smallest compute resource with enough memory and the same GPUs. */
function findLarger(candidates: Candidate[], owner: string, mem: string): Candidate | undefined {
  const current = candidates.find((item) => item.name === owner);
  const gpus = (item: Candidate | undefined) => JSON.stringify(resourcesOf(item).gpu ?? null);
  const hasEnough = (item: Candidate) => memoryOf(item) >= numberOf(mem);
  return candidates
    .filter((item) => item.name !== owner && gpus(item) === gpus(current) && hasEnough(item))
    .sort((left, right) => memoryOf(left) - memoryOf(right))[0];
}

function memoryOf(item: Candidate): number {
  const { requests, limits } = resourcesOf(item).mem ?? {};
  // Without a limit, only the requested memory is certain.
  if (limits === "unlimited") return numberOf(requests ?? 0);
  return numberOf(limits ?? requests ?? 0);
}

function resourcesOf(item: Candidate | undefined): Tree {
  return (item?.requirements as Tree | undefined)?.resources ?? {};
}

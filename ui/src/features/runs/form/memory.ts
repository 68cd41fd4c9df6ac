/** More memory for a run: as much as is asked for, or, where its compute resource sets it, one that gives as much. */
import type { Plan } from "../../../api/plans";
import type { Request } from "../../../api/runs";
import { numberOf } from "../../../format/amounts";
import type { Tree } from "../../../forms/trees";
import { merge } from "./drafts";

interface Offered {
  name: string;
  requirements: Record<string, unknown>;
}

export interface Grown {
  request: Request;
  /** What is not as one may expect. */
  note?: string;
}

export function grow(request: Request, mem: string, plan: Plan, offered: Offered[]): Grown {
  const owner = plan.settings.find(
    ({ path, source }) => path === "resources.mem.requests" && source.layer === "compute_resource",
  )?.source.name;
  const asked = merge(request, { resources: { mem: { requests: mem, limits: mem } } });
  if (!owner) return { request: asked };
  const other = findRoomier(offered, owner, mem);
  if (other) {
    const note = `${owner} gave it too little memory: ${other.name} is chosen, which gives ${mem} or more.`;
    return { request: merge(request, { profile: other.name }), note };
  }
  const note = `${owner} sets the memory, and no compute resource like it gives ${mem}: choose another one, or none.`;
  return { request: asked, note };
}

/** The compute resource with the least memory of those that give enough, and the same GPUs. */
function findRoomier(offered: Offered[], owner: string, mem: string): Offered | undefined {
  const before = offered.find((item) => item.name === owner);
  const gpus = (item: Offered | undefined) => JSON.stringify(resourcesOf(item).gpu ?? null);
  const isEnough = (item: Offered) => memoryOf(item) >= numberOf(mem);
  return offered
    .filter((item) => item.name !== owner && gpus(item) === gpus(before) && isEnough(item))
    .sort((one, other) => memoryOf(one) - memoryOf(other))[0];
}

function memoryOf(item: Offered): number {
  const { requests, limits } = resourcesOf(item).mem ?? {};
  if (limits === "unlimited") return numberOf(requests ?? 0);
  return numberOf(limits ?? requests ?? 0);
}

function resourcesOf(item: Offered | undefined): Tree {
  return (item?.requirements as Tree | undefined)?.resources ?? {};
}

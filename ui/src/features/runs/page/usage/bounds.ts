/** A run's request and limit for each resource. Like its usage, they are totals of all pods. */
import type { Setting } from "../../../../api/plans";
import { numberOf } from "../../../../format/amounts";

export type Measure = "cpu" | "mem" | "gpu" | "gpu_mem" | "disk";

export interface Bounds {
  request: number | null;
  limit: number | null;
}

const NONE: Bounds = { request: null, limit: null };

export function boundsOf(settings: Setting[], measure: Measure): Bounds {
  if (measure === "gpu_mem") return NONE;
  const read = (path: string): number | null => {
    const value = settings.find((setting) => setting.path === path)?.value;
    const amount = numberOf(value as string);
    return Number.isFinite(amount) ? amount : null;
  };
  const pods = read("replicas") ?? 1;
  const devices = read(`resources.${measure}`);
  const request = read(`resources.${measure}.requests`) ?? devices;
  const limit = read(`resources.${measure}.limits`);
  return { request: multiply(request, pods), limit: multiply(limit, pods) };
}

function multiply(amount: number | null, pods: number): number | null {
  return amount === null ? null : amount * pods;
}

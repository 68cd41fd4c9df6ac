/** What a run asked for and may use at most of a resource, as numbers: all its pods together, as usage is told. */
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
    const said = settings.find((setting) => setting.path === path)?.value;
    const amount = numberOf(said as string);
    return Number.isFinite(amount) ? amount : null;
  };
  const pods = read("replicas") ?? 1;
  const whole = read(`resources.${measure}`);
  const request = read(`resources.${measure}.requests`) ?? whole;
  const limit = read(`resources.${measure}.limits`);
  return { request: times(request, pods), limit: times(limit, pods) };
}

function times(amount: number | null, pods: number): number | null {
  return amount === null ? null : amount * pods;
}

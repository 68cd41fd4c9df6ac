/** Measured resources of a run, and their formatting. */
import { round, showBytes } from "../../../../format/amounts";
import type { Bounds, Measure } from "./bounds";

export const MEASURES: { key: Measure; title: string }[] = [
  { key: "cpu", title: "CPU" },
  { key: "mem", title: "Memory" },
  { key: "gpu", title: "GPU" },
  { key: "gpu_mem", title: "GPU memory" },
  { key: "disk", title: "Disk" },
];

export function isBytes(measure: Measure): boolean {
  return measure !== "cpu" && measure !== "gpu";
}

export function showMeasure(measure: Measure, amount: number): string {
  if (isBytes(measure)) return showBytes(amount);
  const unit = measure === "cpu" ? "core" : "GPU";
  return `${round(amount)} ${amount === 1 ? unit : `${unit}s`}`;
}

/** Formats a value for the axis of a chart whose title contains the unit. */
export function showTick(measure: Measure, amount: number): string {
  return amount === 0 ? "0" : isBytes(measure) ? showBytes(amount) : round(amount);
}

/** Whether a resource was requested, limited or used. */
export function isRelevant({ request, limit }: Bounds, peak: number | undefined): boolean {
  return Boolean(peak) || request !== null || limit !== null;
}

/** Describes peak usage, e.g. "Peak 412 MiB of 512 MiB (80% of limit)" or "Peak 0.5 of 2 cores requested · no limit". */
export function describePeak(measure: Measure, peak: number, { request, limit }: Bounds): string {
  const bound = limit ?? request;
  if (bound === null || bound <= 0) return `Peak ${showMeasure(measure, peak)} · no request or limit`;
  const amount = isBytes(measure) ? showBytes(peak) : round(peak);
  const text = `Peak ${amount} of ${showMeasure(measure, bound)}`;
  return limit === null
    ? `${text} requested · no limit`
    : `${text} (${Math.round((100 * peak) / bound)}% of limit)`;
}

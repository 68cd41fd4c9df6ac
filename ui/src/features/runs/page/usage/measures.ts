/** What is measured of a run, in words. */
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

/** At the side of a chart, where the title says what is counted. */
export function showTick(measure: Measure, amount: number): string {
  return amount === 0 ? "0" : isBytes(measure) ? showBytes(amount) : round(amount);
}

/** Not what nobody asked for and nobody used. */
export function isWorthTelling({ request, limit }: Bounds, peak: number | undefined): boolean {
  return Boolean(peak) || request !== null || limit !== null;
}

/** "Peak 412 MiB of a limit of 512 MiB (80%)." */
export function tellPeak(measure: Measure, peak: number, { request, limit }: Bounds): string {
  const told = `Peak ${showMeasure(measure, peak)}`;
  const most = limit ?? request;
  if (most === null || most <= 0) return `${told}; nothing was asked for.`;
  const share = `${Math.round((100 * peak) / most)}%`;
  return limit === null
    ? `${told}, ${share} of the ${showMeasure(measure, most)} that were requested; there is no limit.`
    : `${told} of a limit of ${showMeasure(measure, most)} (${share}).`;
}

/** Quota usage as a share and as text. */
import type { Schemas } from "../../api/client";
import { numberOf, round } from "../../format/amounts";
import { BYTES, splitAmount, unitsFor } from "../../forms/quantities";

type Used = Schemas["ScopeUsage"];
export type Resource = keyof Used;

export const RESOURCES: { key: Resource; title: string }[] = [
  { key: "gpu", title: "GPUs" },
  { key: "cpu", title: "CPU cores" },
  { key: "mem", title: "Memory" },
  { key: "runs", title: "Runs" },
];

const NEARLY_FULL = 0.8;
const BINARY = ["", "Ki", "Mi", "Gi", "Ti", "Pi"];

/** Formats a used amount. Memory is shown in decimal or binary units to match the quota. */
export function showAmount(resource: Resource, amount: string | number, like?: string | number): string {
  if (resource !== "mem") return round(numberOf(amount));
  const isDecimal = like !== undefined && !/i$|^[0-9.]+$/.test(String(like));
  const [step, suffixes] = isDecimal ? [1000, ["", "k", "M", "G", "T", "P"]] : [1024, BINARY];
  const bytes = numberOf(amount);
  const power = bytes < 1 ? 0 : Math.min(suffixes.length - 1, Math.floor(Math.log(bytes) / Math.log(step)));
  return `${round(bytes / step ** power)} ${labelOf(suffixes[power]!)}`;
}

/** Formats a quota in its original unit. */
export function showQuota(resource: Resource, quota: string | number): string {
  if (resource !== "mem") return round(numberOf(quota));
  const { number, unit } = splitAmount(quota, "");
  return Number.isNaN(Number(number)) ? String(quota) : `${round(Number(number))} ${labelOf(unit)}`;
}

export interface Share {
  /** 0 to 1, or more if the quota is exceeded. */
  share: number;
  level: "free" | "near" | "full" | "over";
}

export function shareOf(used: string | number, quota: string | number): Share {
  const [amount, most] = [numberOf(used), numberOf(quota)];
  // A quota of 0 is full, or exceeded if anything is used.
  const share = most > 0 ? amount / most : amount > 0 ? 2 : 1;
  const level = share > 1 ? "over" : share === 1 ? "full" : share >= NEARLY_FULL ? "near" : "free";
  return { share, level };
}

/** "6 GPUs, 26 cores and 4 runs", or an empty string if nothing is in use. */
export function showUsed(used: Used, resources: Resource[]): string {
  const inUse = resources.filter((resource) => numberOf(used[resource]) > 0);
  const parts = inUse.map((resource) => nameOf(resource, showAmount(resource, used[resource])));
  return new Intl.ListFormat("en-GB").format(parts);
}

function nameOf(resource: Resource, amount: string): string {
  const nouns = { gpu: "GPU", cpu: "core", mem: "of memory", runs: "run" };
  return resource === "mem" || amount === "1"
    ? `${amount} ${nouns[resource]}`
    : `${amount} ${nouns[resource]}s`;
}

function labelOf(unit: string): string {
  return unitsFor(BYTES, unit).find((one) => one.value === unit)!.label;
}

/** Node usage as a share and as text. */
import type { ClusterNode } from "../../api/capacities";
import { numberOf, round, showBytes } from "../../format/amounts";

type Amounts = Record<string, string>;

export type By = "gpu" | "memory" | "cpu";
export const VIEWS: { value: By; label: string }[] = [
  { value: "gpu", label: "GPUs" },
  { value: "memory", label: "Memory" },
  { value: "cpu", label: "CPU" },
];

/** The highest usage for each color. The first color is for unused nodes. */
export const STEPS = [0, 0.25, 0.5, 0.75, 0.95, 1];
export const STEP_NAMES = ["0%", "up to 25%", "up to 50%", "up to 75%", "up to 95%", "over 95%"];

const TITLES: Amounts = { cpu: "CPU", memory: "Memory", "ephemeral-storage": "Disk" };
const SIZES = ["memory", "ephemeral-storage"];
/** GPUs and GPU partitions of all vendors. */
const GPU = /\/gpu$|^(nvidia\.com\/(gpu|mig-)|amd\.com\/gpu|gpu\.intel\.com\/|habana\.ai\/gaudi)/;

export interface Usage {
  total: number;
  free: number;
}

/** The total and free GPUs, memory or cores of the given nodes. */
export function measure(nodes: Pick<ClusterNode, "capacity" | "requested">[], by: By): Usage {
  const sum = (of: (node: Pick<ClusterNode, "capacity" | "requested">) => Amounts) =>
    nodes.reduce((amount, node) => amount + amountOf(of(node), by), 0);
  const total = sum((node) => node.capacity);
  // The API rounds free amounts, so a request for 192Mi out of 23.5Gi would not show up in them.
  return { total, free: Math.max(total - sum((node) => node.requested), 0) };
}

/** The share in use, from 0 to 1. Null if the nodes do not have the resource. */
export function shareOf({ total, free }: Usage): number | null {
  return total > 0 ? (total - free) / total : null;
}

/** The index of the color for a share. */
export function stepOf(share: number): number {
  return STEPS.findIndex((most) => share <= most);
}

/** "3 of 8 GPUs", "10 GiB of 32 GiB memory". */
export function showOf(amount: number, total: number, by: By): string {
  if (by === "memory") return `${showBytes(amount)} of ${showBytes(total)} memory`;
  const noun = by === "gpu" ? "GPU" : "core";
  return `${round(amount)} of ${round(total)} ${total === 1 ? noun : `${noun}s`}`;
}

/** The short text in a cell. */
export function showCell(usage: Usage, by: By): string {
  const share = shareOf(usage);
  if (share === null) return "–";
  if (by === "gpu") return `${round(usage.total - usage.free)}/${round(usage.total)}`;
  return share > 0 && share < 0.01 ? "<1%" : `${Math.round(share * 100)}%`;
}

/** A one-line summary of a node. */
export function describeNode(node: ClusterNode, by: By, usage = measure([node], by)): string {
  const status = node.unavailable ? (node.unschedulable ? ", cordoned" : ", not ready") : "";
  if (usage.total === 0) return `${node.name}: – no ${by === "gpu" ? "GPUs" : by}${status}`;
  return `${node.name}: ${showCell(usage, by)} in use, ${showOf(usage.free, usage.total, by)} free${status}`;
}

/** The resources to show, GPUs first. The pod limit is left out, because it is rarely reached. */
export function listResources(capacity: Amounts): { name: string; title: string }[] {
  const names = Object.keys(capacity).filter((name) => name in TITLES || numberOf(capacity[name]!) > 0);
  const gpus = names.filter((name) => GPU.test(name));
  const rest = names.filter((name) => name !== "pods" && !(name in TITLES) && !gpus.includes(name));
  const common = Object.keys(TITLES).filter((name) => names.includes(name));
  return [...gpus, ...common, ...rest].map((name) => ({
    name,
    title: TITLES[name] ?? (gpus.length === 1 && name === gpus[0] ? "GPUs" : name),
  }));
}

/** An amount without the resource name. */
export function showAmount(resource: string, amount: string): string {
  return SIZES.includes(resource) ? showBytes(numberOf(amount)) : round(numberOf(amount));
}

/** "4 GPUs", "2 cores", "12 GiB". */
export function showBlock(resource: string, title: string, amount: string): string {
  const number = showAmount(resource, amount);
  if (SIZES.includes(resource)) return number;
  const noun = resource === "cpu" ? "core" : title === "GPUs" ? "GPU" : title;
  return number === "1" || noun === title ? `${number} ${noun}` : `${number} ${noun}s`;
}

function amountOf(amounts: Amounts, by: By): number {
  if (by !== "gpu") return numberOf(amounts[by] ?? "0");
  return Object.entries(amounts).reduce(
    (sum, [name, amount]) => (GPU.test(name) ? sum + numberOf(amount) : sum),
    0,
  );
}

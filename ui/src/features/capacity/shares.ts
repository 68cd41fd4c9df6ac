/** How much of a node, a group of nodes or a cluster is in use: as a share, and in words. */
import type { ClusterNode } from "../../api/capacities";
import { numberOf, round, showBytes } from "../../format/amounts";

type Amounts = Record<string, string>;

export type By = "gpu" | "memory" | "cpu";
export const VIEWS: { value: By; label: string }[] = [
  { value: "gpu", label: "GPUs" },
  { value: "memory", label: "Memory" },
  { value: "cpu", label: "CPU" },
];

/** Up to which share a color reaches; the first one is for nothing at all. */
export const STEPS = [0, 0.25, 0.5, 0.75, 0.95, 1];
export const STEP_NAMES = ["0%", "to 25%", "to 50%", "to 75%", "to 95%", "over 95%"];

const TITLES: Amounts = { cpu: "CPU", memory: "Memory", "ephemeral-storage": "Disk" };
const SIZES = ["memory", "ephemeral-storage"];
/** GPUs and parts of them, of whichever make. */
const GPU = /\/gpu$|^(nvidia\.com\/(gpu|mig-)|amd\.com\/gpu|gpu\.intel\.com\/|habana\.ai\/gaudi)/;
export interface Measure {
  has: number;
  free: number;
}

/** What nodes have together of GPUs, memory or cores. */
export function measure(nodes: Pick<ClusterNode, "capacity" | "requested">[], by: By): Measure {
  const sum = (of: (node: Pick<ClusterNode, "capacity" | "requested">) => Amounts) =>
    nodes.reduce((total, node) => total + amountOf(of(node), by), 0);
  const has = sum((node) => node.capacity);
  // Of what is free only round numbers are told: 192Mi in use of 23.5Gi are lost in it.
  return { has, free: Math.max(has - sum((node) => node.requested), 0) };
}

/** 0 to 1; nothing where there is none of it. */
export function shareOf({ has, free }: Measure): number | null {
  return has > 0 ? (has - free) / has : null;
}

/** Which of the steps a share is in. */
export function stepOf(share: number): number {
  return STEPS.findIndex((most) => share <= most);
}

/** "3 of 8 GPUs", "10 GiB of 32 GiB of memory". */
export function showOf(amount: number, has: number, by: By): string {
  if (by === "memory") return `${showBytes(amount)} of ${showBytes(has)} of memory`;
  const noun = by === "gpu" ? "GPU" : "core";
  return `${round(amount)} of ${round(has)} ${has === 1 ? noun : `${noun}s`}`;
}

/** What stands in the small space of a cell. */
export function showShort(found: Measure, by: By): string {
  const share = shareOf(found);
  if (share === null) return "–";
  if (by === "gpu") return `${round(found.has - found.free)}/${round(found.has)}`;
  return share > 0 && share < 0.01 ? "<1%" : `${Math.round(share * 100)}%`;
}

/** All that is told of a node in one line. */
export function tellNode(node: ClusterNode, by: By, found = measure([node], by)): string {
  const closed = node.unavailable ? ", closed: it takes nothing new" : "";
  if (found.has === 0) return `${node.name}: – no ${by === "gpu" ? "GPUs" : by}${closed}`;
  return `${node.name}: ${showShort(found, by)} in use, ${showOf(found.free, found.has, by)} free${closed}`;
}

/** The resources that are told of, GPUs first, then other devices. Places for pods are seldom what is scarce. */
export function listResources(capacity: Amounts): { name: string; title: string }[] {
  const there = Object.keys(capacity).filter((name) => name in TITLES || numberOf(capacity[name]!) > 0);
  const gpus = there.filter((name) => GPU.test(name));
  const rest = there.filter((name) => name !== "pods" && !(name in TITLES) && !gpus.includes(name));
  const usual = Object.keys(TITLES).filter((name) => there.includes(name));
  return [...gpus, ...usual, ...rest].map((name) => ({
    name,
    title: TITLES[name] ?? (gpus.length === 1 && name === gpus[0] ? "GPUs" : name),
  }));
}

/** An amount of a resource, without saying of which. */
export function showAmount(resource: string, amount: string): string {
  return SIZES.includes(resource) ? showBytes(numberOf(amount)) : round(numberOf(amount));
}

/** "4 GPUs", "2 cores", "12 GiB". */
export function showSlot(resource: string, title: string, amount: string): string {
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

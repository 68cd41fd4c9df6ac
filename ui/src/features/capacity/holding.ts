/** What runs hold, and where. */
import type { ClusterNode } from "../../api/capacities";
import type { Run } from "../../api/runs";
import { round, showBytes } from "../../format/amounts";

export interface Holder {
  run: Run;
  nodes: string[];
}

/** The runs on some nodes: those with the most GPUs first, then those with the most memory. */
export function listHolders(nodes: ClusterNode[], runs: Record<string, Run>): Holder[] {
  const places = new Map<string, string[]>();
  for (const node of nodes) {
    for (const id of new Set(node.runs)) places.set(id, [...(places.get(id) ?? []), node.name]);
  }
  return [...places]
    .filter(([id]) => runs[id])
    .map(([id, names]) => ({ run: runs[id]!, nodes: names }))
    .sort(
      ({ run: one }, { run: other }) =>
        other.gpus - one.gpus ||
        other.mem_bytes - one.mem_bytes ||
        other.cpu_millicores - one.cpu_millicores ||
        one.id.localeCompare(other.id),
    );
}

/** "2 GPUs, 4 cores, 16 GiB". */
export function tellHeld({ gpus, cpu_millicores, mem_bytes }: Run): string {
  const cores = round(cpu_millicores / 1000);
  return [
    gpus > 0 && `${gpus} ${gpus === 1 ? "GPU" : "GPUs"}`,
    `${cores} ${cores === "1" ? "core" : "cores"}`,
    showBytes(mem_bytes),
  ]
    .filter(Boolean)
    .join(", ");
}

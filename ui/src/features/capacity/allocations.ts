/** The resources and nodes that runs use. */
import type { ClusterNode } from "../../api/capacities";
import type { Run } from "../../api/runs";
import { round, showBytes } from "../../format/amounts";

export interface Allocation {
  run: Run;
  nodes: string[];
}

/** The runs on the given nodes, sorted by GPUs and then by memory, largest first. */
export function listAllocations(nodes: ClusterNode[], runs: Record<string, Run>): Allocation[] {
  const nodesByRun = new Map<string, string[]>();
  for (const node of nodes) {
    for (const id of new Set(node.runs)) nodesByRun.set(id, [...(nodesByRun.get(id) ?? []), node.name]);
  }
  return [...nodesByRun]
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
export function showAllocation({ gpus, cpu_millicores, mem_bytes }: Run): string {
  const cores = round(cpu_millicores / 1000);
  return [
    gpus > 0 && `${gpus} ${gpus === 1 ? "GPU" : "GPUs"}`,
    `${cores} ${cores === "1" ? "core" : "cores"}`,
    showBytes(mem_bytes),
  ]
    .filter(Boolean)
    .join(", ");
}

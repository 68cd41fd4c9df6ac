import { describe, expect, it } from "vitest";
import type { ClusterNode } from "../../api/capacities";
import type { Run } from "../../api/runs";
import { makeRun } from "../../testing/runs";
import { listAllocations, showAllocation } from "./allocations";

function makeHolder(id: string, gpus: number, mem_bytes = 0, cpu_millicores = 0): Run {
  return makeRun({ id, gpus, mem_bytes, cpu_millicores });
}

describe("listAllocations", () => {
  it("lists runs with their nodes, sorted by GPUs, then memory, cores and ID", () => {
    const runs = [
      makeHolder("d", 0, 5, 1),
      makeHolder("c", 0, 5, 2),
      makeHolder("b", 0, 9),
      makeHolder("a", 2),
      makeHolder("e", 0, 5, 1),
    ];
    const nodes = [
      { name: "n1", runs: ["d", "c", "b", "a", "a"] },
      { name: "n2", runs: ["a", "e", "unknown"] },
    ] as ClusterNode[];
    const allocations = listAllocations(nodes, Object.fromEntries(runs.map((run) => [run.id, run])));
    expect(allocations.map(({ run, nodes: names }) => [run.id, names])).toEqual([
      ["a", ["n1", "n2"]],
      ["b", ["n1"]],
      ["c", ["n1"]],
      ["d", ["n1"]],
      ["e", ["n2"]],
    ]);
  });
});

it.each([
  [makeHolder("a", 2, 16 * 1024 ** 3, 4000), "2 GPUs, 4 cores, 16 GiB"],
  [makeHolder("a", 1, 1024, 1000), "1 GPU, 1 core, 1 KiB"],
  [makeHolder("a", 0, 0, 250), "0.25 cores, 0 bytes"],
])("shows the resources of a run: %$", (run, text) => {
  expect(showAllocation(run)).toBe(text);
});

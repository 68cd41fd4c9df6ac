import { describe, expect, it } from "vitest";
import type { ClusterNode } from "../../api/capacities";
import type { Run } from "../../api/runs";
import { makeRun } from "../../testing/runs";
import { listHolders, tellHeld } from "./holding";

function holding(id: string, gpus: number, mem_bytes = 0, cpu_millicores = 0): Run {
  return makeRun({ id, gpus, mem_bytes, cpu_millicores });
}

describe("listHolders", () => {
  it("lists runs with their nodes, by GPUs, then memory, cores and id", () => {
    const runs = [
      holding("d", 0, 5, 1),
      holding("c", 0, 5, 2),
      holding("b", 0, 9),
      holding("a", 2),
      holding("e", 0, 5, 1),
    ];
    const nodes = [
      { name: "n1", runs: ["d", "c", "b", "a", "a"] },
      { name: "n2", runs: ["a", "e", "unknown"] },
    ] as ClusterNode[];
    const holders = listHolders(nodes, Object.fromEntries(runs.map((run) => [run.id, run])));
    expect(holders.map(({ run, nodes: names }) => [run.id, names])).toEqual([
      ["a", ["n1", "n2"]],
      ["b", ["n1"]],
      ["c", ["n1"]],
      ["d", ["n1"]],
      ["e", ["n2"]],
    ]);
  });
});

it.each([
  [holding("a", 2, 16 * 1024 ** 3, 4000), "2 GPUs, 4 cores, 16 GiB"],
  [holding("a", 1, 1024, 1000), "1 GPU, 1 core, 1 KiB"],
  [holding("a", 0, 0, 250), "0.25 cores, 0 bytes"],
])("shows what a run holds: %$", (run, text) => {
  expect(tellHeld(run)).toBe(text);
});

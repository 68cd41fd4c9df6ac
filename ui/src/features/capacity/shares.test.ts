import { describe, expect, it } from "vitest";
import type { ClusterNode } from "../../api/capacities";
import {
  type By,
  describeNode,
  listResources,
  measure,
  STEP_NAMES,
  STEPS,
  shareOf,
  showAmount,
  showBlock,
  showCell,
  showOf,
  stepOf,
} from "./shares";

const GIB = 1024 ** 3;

function makeNode(fields: Partial<ClusterNode>): ClusterNode {
  return { name: "n1", capacity: {}, requested: {}, unavailable: false, ...fields } as ClusterNode;
}

const NODE = makeNode({
  capacity: { cpu: "8", memory: "32Gi", "nvidia.com/gpu": "4", "nvidia.com/mig-1g.5gb": "2", pods: "110" },
  requested: { cpu: "500m", memory: "8Gi", "nvidia.com/gpu": "1" },
});

describe("measure", () => {
  it.each<[By, number, number]>([
    ["gpu", 6, 5],
    ["memory", 32 * GIB, 24 * GIB],
    ["cpu", 8, 7.5],
  ])("adds up %s", (by, total, free) => {
    expect(measure([NODE], by)).toEqual({ total, free });
    expect(measure([NODE, NODE], by)).toEqual({ total: 2 * total, free: 2 * free });
  });

  it("has nothing free if the requests exceed the capacity", () => {
    expect(measure([makeNode({ capacity: { cpu: "1" }, requested: { cpu: "2" } })], "cpu")).toEqual({
      total: 1,
      free: 0,
    });
  });

  it.each(["amd.com/gpu", "gpu.intel.com/i915", "habana.ai/gaudi", "vendor.example/gpu"])(
    "counts %s as a GPU",
    (name) => {
      expect(measure([makeNode({ capacity: { [name]: "2" } })], "gpu").total).toBe(2);
    },
  );

  it.each(["vendor.example/nic", "gpu", "nvidia.com/other"])("does not count %s as a GPU", (name) => {
    expect(measure([makeNode({ capacity: { [name]: "2" } })], "gpu").total).toBe(0);
  });
});

describe("shares", () => {
  it.each([
    [{ total: 0, free: 0 }, null],
    [{ total: 4, free: 4 }, 0],
    [{ total: 4, free: 1 }, 0.75],
    [{ total: 4, free: 0 }, 1],
  ])("of %j are %j", (usage, share) => {
    expect(shareOf(usage)).toBe(share);
  });

  it.each([
    [0, 0],
    [0.001, 1],
    [0.25, 1],
    [0.26, 2],
    [0.5, 2],
    [0.75, 3],
    [0.95, 4],
    [0.951, 5],
    [1, 5],
  ])("of %d are in step %d", (share, step) => {
    expect(stepOf(share)).toBe(step);
  });

  it("have a name for each step", () => {
    expect(STEP_NAMES).toHaveLength(STEPS.length);
  });
});

describe("texts", () => {
  it.each<[number, number, By, string]>([
    [3, 8, "gpu", "3 of 8 GPUs"],
    [1, 1, "gpu", "1 of 1 GPU"],
    [0.5, 1, "cpu", "0.5 of 1 core"],
    [10 * GIB, 32 * GIB, "memory", "10 GiB of 32 GiB memory"],
  ])("show %d of %d by %s as %j", (amount, total, by, text) => {
    expect(showOf(amount, total, by)).toBe(text);
  });

  it.each<[number, number, By, string]>([
    [8, 5, "gpu", "3/8"],
    [0, 0, "gpu", "–"],
    [100, 75, "cpu", "25%"],
    [1000, 999, "cpu", "<1%"],
    [100, 100, "memory", "0%"],
  ])("show a cell with a total of %d and %d free by %s as %j", (total, free, by, text) => {
    expect(showCell({ total, free }, by)).toBe(text);
  });

  it("show a node's used and free amounts, and whether it is available", () => {
    expect(describeNode(NODE, "gpu")).toBe("n1: 1/6 in use, 5 of 6 GPUs free");
    expect(describeNode(makeNode({}), "gpu")).toMatch(/^n1: – no GPUs$/);
    expect(describeNode({ ...NODE, unavailable: true }, "cpu")).toMatch(/free, not ready$/);
    expect(describeNode({ ...NODE, unavailable: true, unschedulable: true }, "cpu")).toMatch(/, cordoned$/);
  });

  it.each([
    ["cpu", "CPU", "2", "2 cores"],
    ["cpu", "CPU", "1", "1 core"],
    ["nvidia.com/gpu", "GPUs", "4", "4 GPUs"],
    ["nvidia.com/gpu", "GPUs", "1", "1 GPU"],
    ["memory", "Memory", "12Gi", "12 GiB"],
    ["vendor.example/nic", "vendor.example/nic", "2", "2 vendor.example/nic"],
  ])("show a free block of %s with the title %s and the amount %s as %j", (resource, title, amount, text) => {
    expect(showBlock(resource, title, amount)).toBe(text);
  });

  it.each([
    ["memory", "1536Mi", "1.5 GiB"],
    ["ephemeral-storage", "10Gi", "10 GiB"],
    ["cpu", "1500m", "1.5"],
  ])("show %s with the amount %s as %j", (resource, amount, text) => {
    expect(showAmount(resource, amount)).toBe(text);
  });
});

describe("listResources", () => {
  const titlesOf = (capacity: Record<string, string>) => listResources(capacity).map(({ title }) => title);

  it.each([
    [{ pods: "110", memory: "1Gi", cpu: "0", "nvidia.com/gpu": "4" }, ["GPUs", "CPU", "Memory"]],
    [{ cpu: "1", "vendor.example/nic": "1", "vendor.example/none": "0" }, ["CPU", "vendor.example/nic"]],
    [{ "nvidia.com/gpu": "1", "nvidia.com/mig-1g.5gb": "2" }, ["nvidia.com/gpu", "nvidia.com/mig-1g.5gb"]],
    [{ "nvidia.com/gpu": "0", "ephemeral-storage": "1Gi" }, ["Disk"]],
    [{}, []],
  ])("lists the resources in %j as %j", (capacity, titles) => {
    expect(titlesOf(capacity)).toEqual(titles);
  });
});

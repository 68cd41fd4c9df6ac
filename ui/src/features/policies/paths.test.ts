import { describe, expect, it } from "vitest";
import { CHOICES, findPath, isByteAmount, KNOWN, labelOf } from "./paths";

describe("findPath", () => {
  it("finds every known path", () => {
    expect(KNOWN.map(({ path }) => findPath(path))).toEqual(KNOWN);
  });

  it.each([
    ["envs.HF_HOME", "envs.*"],
    ["node_selector.topology.kubernetes.io/zone", "node_selector.*"],
    ["resources.extended.vendor.example/nic", "resources.extended.*"],
    ["volumes.data", "volumes.*"],
    ["volumes.data.spec.size", "volumes.*.spec.size"],
    ["volumes.data.read_only", "volumes.*.read_only"],
  ])("matches %s to %s", (path, known) => {
    expect(findPath(path)?.path).toBe(known);
  });

  it.each(["", "resources.gpus", "envs.", "volumes.a.b", "volumes..spec.size", "volumes.spec.size.x"])(
    "does not find %j",
    (path) => {
      expect(findPath(path)).toBeUndefined();
    },
  );
});

describe("labelOf", () => {
  it.each([
    ["resources.mem.limits", "CPU memory limit"],
    ["envs.HF_HOME", "Variable HF_HOME"],
    ["envs.*", "Every variable"],
    ["volumes.data.spec.size", "Size of volume data"],
    ["volumes.*.spec.size", "Size of every volume"],
    ["resources.gpus", "resources.gpus"],
  ])("labels %s as %j", (path, label) => {
    expect(labelOf(path)).toBe(label);
  });
});

it.each([
  ["resources.mem.limits", true],
  ["volumes.data.spec.size", true],
  ["resources.cpu", false],
  ["resources.gpus", false],
])("reports whether %s is an amount of bytes: %j", (path, expected) => {
  expect(isByteAmount(path)).toBe(expected);
});

it("offers every known path exactly once", () => {
  const offered = CHOICES.flatMap(({ items }) => items);
  expect(offered.toSorted()).toEqual(KNOWN.map(({ path }) => path).toSorted());
  expect(new Set(offered).size).toBe(offered.length);
});

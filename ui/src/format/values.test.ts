import { describe, expect, it } from "vitest";
import { listDifferences, listLeaves, showValue } from "./values";

describe("showValue", () => {
  it.each([
    [null, "–"],
    [undefined, "–"],
    [true, "yes"],
    [false, "no"],
    [0, "0"],
    ["", ""],
    ["64Gi", "64Gi"],
    [["a", 1, false, null], "a, 1, no, –"],
    [[], ""],
    [{ a: 1 }, '{"a":1}'],
  ])("shows %j as %j", (value, text) => {
    expect(showValue(value)).toBe(text);
  });
});

describe("listLeaves", () => {
  it.each([
    ["nothing", {}, {}],
    ["a plain value without a path", 1, {}],
    ["a mapping by path", { a: { b: 1, c: null }, d: false }, { "a.b": 1, "a.c": null, d: false }],
    ["an empty mapping as one value", { a: {} }, { a: {} }],
    ["a list of words as one value", { secrets: ["A", "B"] }, { secrets: ["A", "B"] }],
    ["variables by name", { envs: [{ name: "A", value: "1" }] }, { "envs.A": "1" }],
    ["labels by key", { node_selector: [{ key: "pool", value: "gpu" }] }, { "node_selector.pool": "gpu" }],
    [
      "volumes by name and field",
      { volumes: [{ name: "data", mount_path: "/data", spec: { size: "1Gi" } }] },
      { "volumes.data.mount_path": "/data", "volumes.data.spec.size": "1Gi" },
    ],
    [
      "items with the same name as one value",
      {
        envs: [
          { name: "A", value: 1 },
          { name: "A", value: 2 },
        ],
      },
      {
        envs: [
          { name: "A", value: 1 },
          { name: "A", value: 2 },
        ],
      },
    ],
    [
      "items without a name as one value",
      { tolerations: [{ operator: "Exists" }] },
      { tolerations: [{ operator: "Exists" }] },
    ],
    ["a list with null as one value", { inputs: { xs: [null, 1] } }, { "inputs.xs": [null, 1] }],
    ["a list of lists as one value", { inputs: { xs: [[1], [2]] } }, { "inputs.xs": [[1], [2]] }],
  ])("lists %s", (_, tree, leaves) => {
    expect(Object.fromEntries(listLeaves(tree).map(({ path, value }) => [path, value]))).toEqual(leaves);
  });
});

describe("listDifferences", () => {
  it("lists what was added, changed and removed, sorted by path", () => {
    const before = { same: 1, changed: { to: 1 }, removed: true };
    const after = { added: "x", same: 1, changed: { to: 2 } };
    expect(listDifferences(before, after)).toEqual([
      { path: "added", before: undefined, after: "x" },
      { path: "changed.to", before: 1, after: 2 },
      { path: "removed", before: true, after: undefined },
    ]);
  });

  it.each([
    [null, null],
    [{ a: [1] }, { a: [1] }],
    [{ envs: [{ name: "A", value: 1 }] }, { envs: { A: 1 } }],
  ])("finds no difference between %j and %j", (before, after) => {
    expect(listDifferences(before, after)).toEqual([]);
  });
});

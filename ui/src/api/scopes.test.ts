import { describe, expect, it } from "vitest";
import { ancestorsOf, childrenOf, clusterOf, matching, type Scope, splitScope } from "./scopes";

function record(scope: string, parent: string | null): Scope {
  const { kind, name } = splitScope(scope);
  return { scope, parent, kind, name } as Scope;
}

const SCOPES = [
  record("platform", null),
  record("project/default", "cluster/local"),
  record("cluster/local", "platform"),
  record("project/Forest", "department/vision"),
  record("department/vision", "cluster/local"),
];

it.each([
  ["project/Forest", ["department/vision", "cluster/local", "platform"]],
  ["cluster/local", ["platform"]],
  ["platform", []],
  ["project/unknown", []],
])("lists the scopes above %s, nearest first", (scope, ancestors) => {
  expect(ancestorsOf(SCOPES, scope)).toEqual(ancestors);
});

it("stops at a cycle", () => {
  expect(ancestorsOf([record("a/a", "a/b"), record("a/b", "a/a")], "a/a")).toEqual(["a/b", "a/a"]);
});

it("lists children by kind and name", () => {
  expect(childrenOf(SCOPES, "cluster/local").map(({ scope }) => scope)).toEqual([
    "department/vision",
    "project/default",
  ]);
  expect(childrenOf(SCOPES, "project/default")).toEqual([]);
});

describe("matching", () => {
  it.each([
    [" forest ", ["platform", "cluster/local", "project/Forest", "department/vision"]],
    ["VISION", ["platform", "cluster/local", "department/vision"]],
    ["nothing", []],
    ["", SCOPES.map(({ scope }) => scope)],
  ])("keeps the matches for %j and their ancestors", (search, scopes) => {
    expect(matching(SCOPES, search).map(({ scope }) => scope)).toEqual(scopes);
  });
});

it.each([
  ["project/Forest", "cluster/local"],
  ["cluster/local", "cluster/local"],
  ["platform", null],
])("finds the cluster of %s", (scope, cluster) => {
  expect(clusterOf(SCOPES, scope)).toBe(cluster);
});

it.each([
  ["project/a+b", { kind: "project", name: "a+b" }],
  ["platform", { kind: "platform", name: "platform" }],
])("splits the scope %s", (scope, parts) => {
  expect(splitScope(scope)).toEqual(parts);
});

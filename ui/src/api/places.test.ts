import { describe, expect, it } from "vitest";
import { ancestorsOf, childrenOf, clusterOf, matching, type Place, splitScope } from "./places";

function place(scope: string, parent: string | null): Place {
  const { kind, name } = splitScope(scope);
  return { scope, parent, kind, name } as Place;
}

const PLACES = [
  place("platform", null),
  place("project/default", "cluster/local"),
  place("cluster/local", "platform"),
  place("project/Forest", "department/vision"),
  place("department/vision", "cluster/local"),
];

it.each([
  ["project/Forest", ["department/vision", "cluster/local", "platform"]],
  ["cluster/local", ["platform"]],
  ["platform", []],
  ["project/unknown", []],
])("lists the scopes above %s, the nearest first", (scope, ancestors) => {
  expect(ancestorsOf(PLACES, scope)).toEqual(ancestors);
});

it("does not follow a circle for ever", () => {
  expect(ancestorsOf([place("a/a", "a/b"), place("a/b", "a/a")], "a/a")).toEqual(["a/b", "a/a"]);
});

it("lists children by kind and name", () => {
  expect(childrenOf(PLACES, "cluster/local").map(({ scope }) => scope)).toEqual([
    "department/vision",
    "project/default",
  ]);
  expect(childrenOf(PLACES, "project/default")).toEqual([]);
});

describe("matching", () => {
  it.each([
    [" forest ", ["platform", "cluster/local", "project/Forest", "department/vision"]],
    ["VISION", ["platform", "cluster/local", "department/vision"]],
    ["nothing", []],
    ["", PLACES.map(({ scope }) => scope)],
  ])("of %j keeps the hits and the scopes above them", (search, scopes) => {
    expect(matching(PLACES, search).map(({ scope }) => scope)).toEqual(scopes);
  });
});

it.each([
  ["project/Forest", "cluster/local"],
  ["cluster/local", "cluster/local"],
  ["platform", null],
])("finds the cluster of %s", (scope, cluster) => {
  expect(clusterOf(PLACES, scope)).toBe(cluster);
});

it.each([
  ["project/a+b", { kind: "project", name: "a+b" }],
  ["platform", { kind: "platform", name: "platform" }],
])("splits the scope %s", (scope, parts) => {
  expect(splitScope(scope)).toEqual(parts);
});

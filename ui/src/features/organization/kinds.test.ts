import { expect, it } from "vitest";
import type { Scope } from "../../api/scopes";
import { isAllowedBelow, kindsBelow, parentsFor, titleOf } from "./kinds";
import { replaceScope } from "./requests";
import { splitSubject } from "./roles";

it.each([
  ["platform", ["cluster", "department", "project"]],
  ["cluster", ["department", "project"]],
  ["department", ["project"]],
  ["project", []],
])("allows these kinds below a %s: %j", (kind, kinds) => {
  expect(kindsBelow(kind).map((below) => below.kind)).toEqual(kinds);
});

it("allows no kind below itself or below a lower kind", () => {
  expect([isAllowedBelow("department", "department"), isAllowedBelow("cluster", "project")]).toEqual([
    false,
    false,
  ]);
});

it.each([
  ["cluster", ["platform"], ["platform"]],
  ["department", ["platform"], ["platform"]],
  ["department", ["platform", "cluster", "department", "project"], ["cluster"]],
  ["project", ["platform", "cluster", "department", "project"], ["cluster", "department"]],
])("offers parents for a %s from %j: %j", (kind, kinds, parents) => {
  const scopes = kinds.map((each) => ({ kind: each }) as Scope);
  expect(parentsFor(kind, scopes).map((scope) => scope.kind)).toEqual(parents);
});

it("shows the platform as Platform, and others by name", () => {
  expect(titleOf({ kind: "platform", name: "platform" } as Scope)).toBe("Platform");
  expect(titleOf({ kind: "project", name: "forest" } as Scope)).toBe("forest");
});

it.each([
  ["user:ada", { kind: "user", name: "ada" }],
  ["group:a:b", { kind: "group", name: "a:b" }],
])("splits the subject %s", (subject, parts) => {
  expect(splitSubject(subject)).toEqual(parts);
});

it("replaces a renamed scope and updates the parent of its children", () => {
  const record = (id: string, scope: string, parent: string | null) => ({ id, scope, parent }) as Scope;
  const before = record("2", "department/old", "platform");
  const after = record("2", "department/new", "platform");
  const others = [record("1", "platform", null), record("4", "project/b", "platform")];
  const scopes = [...others, before, record("3", "project/a", "department/old")];
  expect(replaceScope(scopes, before, after)).toEqual([
    ...others,
    record("3", "project/a", "department/new"),
    after,
  ]);
  expect(replaceScope(others, null, after)).toEqual([...others, after]);
  expect(replaceScope([...others, before], before, undefined)).toEqual(others);
});

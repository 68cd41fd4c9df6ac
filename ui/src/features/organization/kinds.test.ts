import { expect, it } from "vitest";
import type { Place } from "../../api/places";
import { kindsBelow, mayStandBelow, titleOf } from "./kinds";
import { replacePlace } from "./requests";
import { splitSubject } from "./roles";

it.each([
  ["platform", ["cluster", "department", "project"]],
  ["cluster", ["department", "project"]],
  ["department", ["project"]],
  ["project", []],
])("offers below a %s the kinds %j", (kind, kinds) => {
  expect(kindsBelow(kind).map((below) => below.kind)).toEqual(kinds);
});

it("puts no place below itself or below a lower kind", () => {
  expect([mayStandBelow("department", "department"), mayStandBelow("cluster", "project")]).toEqual([
    false,
    false,
  ]);
});

it("calls the platform Platform, and others by their names", () => {
  expect(titleOf({ kind: "platform", name: "platform" } as Place)).toBe("Platform");
  expect(titleOf({ kind: "project", name: "forest" } as Place)).toBe("forest");
});

it.each([
  ["user:ada", { kind: "user", name: "ada" }],
  ["group:a:b", { kind: "group", name: "a:b" }],
])("splits the subject %s", (subject, parts) => {
  expect(splitSubject(subject)).toEqual(parts);
});

it("replaces a place that was renamed, with the parent of what is below it", () => {
  const place = (id: string, scope: string, parent: string | null) => ({ id, scope, parent }) as Place;
  const before = place("2", "department/old", "platform");
  const after = place("2", "department/new", "platform");
  const others = [place("1", "platform", null), place("4", "project/b", "platform")];
  const places = [...others, before, place("3", "project/a", "department/old")];
  expect(replacePlace(places, before, after)).toEqual([
    ...others,
    place("3", "project/a", "department/new"),
    after,
  ]);
  expect(replacePlace(others, null, after)).toEqual([...others, after]);
  expect(replacePlace([...others, before], before, undefined)).toEqual(others);
});

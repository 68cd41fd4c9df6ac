import { describe, expect, it } from "vitest";
import { answerLists, callHook } from "../testing/hooks";
import { useIsEditor, useMay, useOwnProjects } from "./currentUser";

const SCOPES = [
  { scope: "platform", kind: "platform", name: "platform", parent: null },
  { scope: "department/vision", kind: "department", name: "vision", parent: "platform" },
  { scope: "project/forest", kind: "project", name: "forest", parent: "department/vision" },
  { scope: "project/alps", kind: "project", name: "alps", parent: "platform" },
];

function signIn(...roles: [role: string, scope: string][]) {
  const queries = answerLists({ "/api/v1/scopes": SCOPES });
  queries.setQueryData(["/api/v1/me"], {
    user: "ada",
    roles: roles.map(([role, scope]) => ({ role, scope })),
  });
  return { queries };
}

describe("useMay", () => {
  it.each([
    ["member", "project/forest", "member", "project/forest", true],
    ["member", "department/vision", "member", "project/forest", true],
    ["admin", "platform", "editor", "project/forest", true],
    ["editor", "platform", "member", "project/forest", false],
    ["viewer", "platform", "member", "project/forest", false],
    ["member", "project/alps", "member", "project/forest", false],
    ["member", "project/forest", "member", "department/vision", false],
  ] as const)("for a %s of %s and the role %s in %s is %5$j", (held, at, role, scope, expected) => {
    expect(callHook(useMay, signIn([held, at]))(role, scope)).toBe(expected);
  });

  it("is false until the current user is known", () => {
    expect(callHook(useMay)("member", "project/forest")).toBe(false);
  });
});

it.each([
  ["admin", true],
  ["editor", true],
  ["member", false],
  ["viewer", false],
])("treats a %s as an editor: %j", (role, expected) => {
  expect(callHook(useIsEditor, signIn([role, "project/forest"]))).toBe(expected);
});

it("lists the projects of a member, sorted by name", () => {
  expect(callHook(useOwnProjects, signIn(["member", "platform"]))).toEqual(["alps", "forest"]);
  expect(callHook(useOwnProjects, signIn(["viewer", "platform"], ["member", "project/forest"]))).toEqual([
    "forest",
  ]);
  expect(callHook(useOwnProjects)).toBeUndefined();
});

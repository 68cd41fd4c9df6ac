import { expect, it } from "vitest";
import { ALL_ACTIONS, colorOf, KINDS, showKind } from "./actions";

it("lists each action once, prefixed with its kind", () => {
  expect(new Set(ALL_ACTIONS).size).toBe(ALL_ACTIONS.length);
  expect(new Set(ALL_ACTIONS.map((action) => action.split(".")[0]))).toEqual(new Set(KINDS));
  expect(ALL_ACTIONS).toContain("compute_resource.archive");
});

it("uses different colors for creation and deletion, and none for other actions", () => {
  const [created, deleted, edited] = ["run.create", "run.delete", "policy.edit"].map(colorOf);
  expect(created).toBeDefined();
  expect(deleted).toBeDefined();
  expect(created).not.toBe(deleted);
  expect(edited).toBeUndefined();
});

it("shows a kind without underscores", () => {
  expect(showKind("compute_resource")).toBe("compute resource");
});

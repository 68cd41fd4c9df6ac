import { describe, expect, it } from "vitest";
import { ACTIONS, REASONS, STATES, shortId, shortName, showState, showType } from "./runs";

it("shows the type of a workload, or its action if the type is unknown", () => {
  expect(ACTIONS.map(showType)).toEqual(["Training", "Inference", "Workspace"]);
  expect(showType("dance")).toBe("dance");
});

describe("showState", () => {
  it.each([
    ["queued", { label: "Queued", color: "blue" }],
    ["running", { label: "Running", color: "teal" }],
    ["failed", { label: "Failed", color: "red" }],
    ["unheard-of", { label: "Unheard-of", color: "blue" }],
  ])("shows %s", (state, shown) => {
    expect(showState(state)).toEqual(shown);
  });

  it("lists every state and reason only once", () => {
    expect(new Set(STATES).size).toBe(STATES.length);
    expect(new Set(REASONS).size).toBe(REASONS.length);
  });
});

it("names a run by its function and the end of its ID", () => {
  const run = { function: "train", id: "0190a3b2c4d5e6f7-9b1a4c6e" };
  expect(shortId(run.id)).toBe("9b1a4c6e");
  expect(shortName(run)).toBe("train 9b1a4c6e");
});

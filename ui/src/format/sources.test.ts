import { describe, expect, it } from "vitest";
import type { Source } from "../api/plans";
import { showSetting, showSource } from "./sources";

function makeSource(layer: Source["layer"], fields: Partial<Source> = {}): Source {
  return { layer, name: null, scope: null, revision: null, ...fields };
}

describe("showSource", () => {
  it.each([
    [makeSource("policy", { scope: "department/vision" }), "department/vision"],
    [makeSource("template", { name: "tuning" }), "tuning"],
    [makeSource("compute_resource", { name: "small" }), "small"],
  ])("contains the name of the source: %j", (source, name) => {
    expect(showSource(source)).toContain(name);
  });

  it("has a different label for every layer", () => {
    const layers = ["platform", "policy", "template", "user", "compute_resource", "enforced"] as const;
    expect(new Set(layers.map((layer) => showSource(makeSource(layer)))).size).toBe(layers.length);
  });
});

describe("showSetting", () => {
  it.each([
    ["resources.mem.limits", null, "no limit"],
    ["resources.mem.limits", "2Gi", "2Gi"],
    ["resources.mem.requests", null, "–"],
    ["strict", true, "yes"],
  ])("shows %s with the value %j as %j", (path, value, text) => {
    expect(showSetting({ path, value })).toBe(text);
  });
});

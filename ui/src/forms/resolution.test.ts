import { describe, expect, it } from "vitest";
import type { Said, Setting, Source } from "../api/plans";
import { resolve, showTold } from "./resolution";

function said(layer: Source["layer"], value: unknown, name = "small"): Said {
  return { value, source: { layer, name, scope: "department/vision", revision: null } };
}

function makeSetting(layer: Source["layer"], value: unknown, overrode: Said[] = []): Setting {
  return { path: "resources.mem.limits", overrode, ...said(layer, value) };
}

describe("a note at a field", () => {
  it.each<[string, Setting]>([
    ["a value of the request", makeSetting("user", "2Gi")],
    ["a value that every run gets", makeSetting("imposed", true)],
    ["a limit that nobody set", makeSetting("policy", null)],
  ])("is not shown for %s", (_, setting) => {
    expect(resolve(setting)).toBeUndefined();
  });

  it.each<[string, Setting, boolean, string[]]>([
    ["a default of a policy", makeSetting("policy", "10Mi"), false, ["10Mi", "department/vision"]],
    ["a value of a template", makeSetting("template", "10Mi"), false, ["10Mi", "template small"]],
    [
      "a value of a compute resource",
      makeSetting("compute_resource", "96Mi"),
      true,
      ["96Mi", "compute resource small"],
    ],
    [
      "a value of a compute resource that overrides the request",
      makeSetting("compute_resource", "96Mi", [said("policy", "1Gi"), said("user", "2Gi")]),
      true,
      ["96Mi", "2Gi"],
    ],
    ["a compute resource without a limit", makeSetting("compute_resource", null), true, ["no limit"]],
    [
      "an enforced value that overrides the request",
      makeSetting("imposed", "1", [said("user", "2")]),
      true,
      ["1", "2"],
    ],
  ])("is shown for %s", (_, setting, isLocked, parts) => {
    const told = resolve(setting)!;
    expect(told.isLocked).toBe(isLocked);
    for (const part of parts) expect(showTold(told)).toContain(part);
    expect(showTold(told, "limit: ")).toMatch(/^limit: /);
  });
});

import { describe, expect, it } from "vitest";
import type { Setting, Source, SourcedValue } from "../api/plans";
import { describeNote, resolve } from "./resolution";

function makeValue(layer: Source["layer"], value: unknown, name = "small"): SourcedValue {
  return { value, source: { layer, name, scope: "department/vision", revision: null } };
}

function makeSetting(layer: Source["layer"], value: unknown, overridden: SourcedValue[] = []): Setting {
  return { path: "resources.mem.limits", overridden, ...makeValue(layer, value) };
}

describe("a note at a field", () => {
  it.each<[string, Setting]>([
    ["a requested value", makeSetting("user", "2Gi")],
    ["a value enforced for every run", makeSetting("enforced", true)],
    ["a limit that is not set", makeSetting("policy", null)],
  ])("is not shown for %s", (_, setting) => {
    expect(resolve(setting)).toBeUndefined();
  });

  it.each<[string, Setting, boolean, string[]]>([
    ["a policy default", makeSetting("policy", "10Mi"), false, ["10Mi", "department/vision"]],
    ["a template value", makeSetting("template", "10Mi"), false, ["10Mi from template small"]],
    ["a compute resource value", makeSetting("compute_resource", "96Mi"), true, ["Locked to 96Mi by small"]],
    [
      "a compute resource value that overrides the request",
      makeSetting("compute_resource", "96Mi", [makeValue("policy", "1Gi"), makeValue("user", "2Gi")]),
      true,
      ["Locked to 96Mi by small (you entered 2Gi)"],
    ],
    ["a compute resource without a limit", makeSetting("compute_resource", null), true, ["no limit"]],
    [
      "an enforced value that overrides the request",
      makeSetting("enforced", "1", [makeValue("user", "2")]),
      true,
      ["1", "2"],
    ],
  ])("is shown for %s", (_, setting, isLocked, parts) => {
    const note = resolve(setting)!;
    expect(note.isLocked).toBe(isLocked);
    for (const part of parts) expect(describeNote(note)).toContain(part);
    expect(describeNote(note, "limit")).toMatch(/^limit: /);
  });
});

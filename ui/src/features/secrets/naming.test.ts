import { describe, expect, it } from "vitest";
import { findInvalidName, usesSecret } from "./naming";

describe("usesSecret", () => {
  it.each([
    [{ secrets: ["HF_TOKEN"] }, true],
    [{ secrets: ["HF_TOKEN_2"] }, false],
    [{ volumes: [{ name: "x", volume_type: "secret", spec: { name: "HF_TOKEN" } }] }, true],
    [{ volumes: [{ name: "HF_TOKEN", volume_type: "secret" }] }, true],
    [{ volumes: { HF_TOKEN: { volume_type: "secret" } } }, true],
    [{ volumes: [{ name: "HF_TOKEN", volume_type: "secret", spec: { name: "other" } }] }, false],
    [{ volumes: [{ name: "HF_TOKEN", volume_type: "empty_dir" }] }, false],
    [{}, false],
    [null, false],
    [undefined, false],
  ])("in %j is %j", (requirements, expected) => {
    expect(usesSecret(requirements, "HF_TOKEN")).toBe(expected);
  });
});

it.each([
  ["HF_TOKEN", false],
  ["a.b", false],
  ["...", false],
  ["", false],
  [".", true],
  ["..", true],
  ["a/b", true],
])("reports whether the name %j would change the URL: %j", (name, isInvalid) => {
  expect(findInvalidName(name).map(({ path }) => path)).toEqual(isInvalid ? ["name"] : []);
});

import { describe, expect, it } from "vitest";
import { findMisleading, namesSecret } from "./naming";

describe("namesSecret", () => {
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
    expect(namesSecret(requirements, "HF_TOKEN")).toBe(expected);
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
])("finds that the name %j would lead to another address: %j", (name, isWrong) => {
  expect(findMisleading(name).map(({ path }) => path)).toEqual(isWrong ? ["name"] : []);
});

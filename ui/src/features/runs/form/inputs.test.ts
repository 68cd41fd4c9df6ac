import { describe, expect, it } from "vitest";
import { parseInputs } from "./inputs";

describe("inputs that are accepted", () => {
  it.each([
    ["epochs: 3", { epochs: 3 }],
    ['{"epochs": 3, "note": "it\'s $HOME"}', { epochs: 3, note: "it's $HOME" }],
    ["a: {b: [1, 2.5, true, null, 'x']}", { a: { b: [1, 2.5, true, null, "x"] } }],
    ["epochs: 2  # quick", { epochs: 2 }],
    ["n: 9007199254740991", { n: 9007199254740991 }],
    ["n: -0.5e3", { n: -500 }],
    ["n: '9007199254740993'", { n: "9007199254740993" }],
    ["day: 2024-05-01", { day: "2024-05-01" }],
    ["on: yes", { on: "yes" }],
    ["<<: {epochs: 2}\nlr: 1", { epochs: 2, lr: 1 }],
    ["a: &x [1]\nb: *x", { a: [1], b: [1] }],
    ["text: |\n  two\n  lines\n", { text: "two\nlines\n" }],
    ["{}", {}],
  ])("%j is read exactly", (text, value) => {
    expect(parseInputs(text)).toEqual({ value });
  });

  it.each(["", "  \n", "# only a comment", "null", "~"])("%j means no inputs", (text) => {
    expect(parseInputs(text)).toEqual({});
  });

  it("keep names that JavaScript objects already have", () => {
    expect(JSON.stringify(parseInputs("__proto__: {a: 1}\nconstructor: 2").value)).toBe(
      '{"__proto__":{"a":1},"constructor":2}',
    );
  });
});

describe("inputs that are rejected", () => {
  it.each([
    ["n: .nan", "NaN"],
    ["n: -.inf", "-Infinity"],
    ["n: 9007199254740993", "9007199254740993"],
    ["a: [[-9007199254740993]]", "-9007199254740993"],
    ["a: &x [*x]", "circular reference"],
    [`a: ${"[".repeat(60)}${"]".repeat(60)}`, "nested too deeply"],
    ["? [1]\n: 2", "name"],
    ["1: one", "name"],
    ["n: !!binary aGk=", "binary"],
    ["n: !odd 1", "invalid YAML or JSON"],
    ["a: [1", "invalid YAML or JSON"],
    ["a: 1\na: 2", "invalid YAML or JSON"],
    ["a: *unknown", "unknown"],
    ["a: 1\n---\nb: 2", "invalid YAML or JSON"],
    ["- 1", "names and values"],
    ["text", "names and values"],
    ["3", "names and values"],
  ])("%j, with the reason", (text, reason) => {
    const { value, error } = parseInputs(text);
    expect(value).toBeUndefined();
    expect(error).toContain(reason);
  });
});

import { describe, expect, it } from "vitest";
import { isEmpty, isTree, keepUntouched, omitEmpty, text } from "./trees";

describe("isEmpty", () => {
  it.each([undefined, null, "", {}, []])("is true for %j", (value) => {
    expect(isEmpty(value)).toBe(true);
  });

  it.each([0, false, " ", { a: undefined }, [null]])("is false for %j", (value) => {
    expect(isEmpty(value)).toBe(false);
  });
});

describe("isTree", () => {
  it.each([
    [{}, true],
    [{ a: 1 }, true],
    [[], false],
    [null, false],
    ["a", false],
    [undefined, false],
  ])("of %j is %j", (value, expected) => {
    expect(isTree(value)).toBe(expected);
  });
});

it.each([
  [null, ""],
  [undefined, ""],
  [0, "0"],
  [false, "false"],
  ["a", "a"],
])("writes %j into a field as %j", (value, written) => {
  expect(text(value)).toBe(written);
});

it("omits empty values, but keeps zero and false", () => {
  expect(omitEmpty({ a: "", b: null, c: {}, d: [], e: 0, f: false, g: "x" })).toEqual({
    e: 0,
    f: false,
    g: "x",
  });
});

describe("keepUntouched", () => {
  it("keeps values in the notation in which they were read if the form has not changed", () => {
    const read = { cpu: 1, unknown: { x: 1 } };
    expect(keepUntouched(read, { cpu: "1" }, { cpu: "1" })).toEqual(read);
  });

  it("applies changes made in the form and keeps the values next to them", () => {
    const read = { gpu: { devices: 1, memory: { limit: "50%" } }, cpu: "1" };
    const before = { gpu: { devices: "1", memory: "50%" }, cpu: "1" };
    const after = { gpu: { devices: "1", type: "A100", memory: "50%" }, cpu: "2" };
    expect(keepUntouched(read, before, after)).toEqual({
      gpu: { devices: 1, type: "A100", memory: { limit: "50%" } },
      cpu: "2",
    });
  });

  it("removes values that the form removed, and adds new ones", () => {
    expect(keepUntouched({ a: 1, b: 2 }, { a: "1", b: "2" }, { b: "2", c: "3" })).toStrictEqual({
      b: 2,
      c: "3",
    });
  });

  it("replaces lists as a whole", () => {
    expect(keepUntouched({ a: [{ x: 1, y: 2 }] }, { a: [{ x: "1" }] }, { a: [{ x: "2" }] })).toEqual({
      a: [{ x: "2" }],
    });
  });

  it("replaces a changed value that was read in a different notation", () => {
    const before = { cpu: { requests: "1" } };
    expect(keepUntouched({ cpu: "1" }, before, { cpu: { requests: "2" } })).toEqual({
      cpu: { requests: "2" },
    });
  });
});

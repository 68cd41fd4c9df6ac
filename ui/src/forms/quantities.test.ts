import { describe, expect, it } from "vitest";
import { BYTES, CORES, joinAmount, showByteQuantity, splitAmount, unitsFor } from "./quantities";

describe("splitAmount", () => {
  it.each([
    ["64Gi", { number: "64", unit: "Gi" }],
    ["1.5", { number: "1.5", unit: "" }],
    ["500m", { number: "500", unit: "m" }],
    ["50%", { number: "50", unit: "%" }],
    [4, { number: "4", unit: "" }],
    [0, { number: "0", unit: "" }],
  ])("splits %j into a number and a unit", (text, amount) => {
    expect(splitAmount(text, "Gi")).toEqual(amount);
  });

  it.each([null, undefined, ""])("uses the default unit for %j", (text) => {
    expect(splitAmount(text, "Gi")).toEqual({ number: "", unit: "Gi" });
  });

  it.each(["many", "1e3", "-1", "8 Gi", "Gi"])("keeps %j as it is, without a unit", (text) => {
    expect(splitAmount(text, "Gi")).toEqual({ number: text, unit: "" });
  });
});

describe("joinAmount", () => {
  it.each(["64Gi", "1.5", "500m", "50%", "1e3", "many", "0"])("restores %j after it was split", (text) => {
    expect(joinAmount(splitAmount(text, "Gi"))).toBe(text);
  });

  it.each([
    [{ number: " 8 ", unit: "Gi" }, "8Gi"],
    [{ number: "", unit: "Gi" }, ""],
    [{ number: "  ", unit: "Gi" }, ""],
  ])("joins %j into %j", (amount, text) => {
    expect(joinAmount(amount)).toBe(text);
  });
});

it.each([
  ["64Gi", "64 GiB"],
  ["1.5G", "1.5 GB"],
  ["512Ki", "512 KiB"],
  ["1000", "1000 bytes"],
  [2, "2 bytes"],
  ["unlimited", "unlimited"],
])("shows the quantity %j as %j", (text, shown) => {
  expect(showByteQuantity(text)).toBe(shown);
});

describe("unitsFor", () => {
  it("returns the default units if they include the current one", () => {
    expect(unitsFor(BYTES, "Gi")).toBe(BYTES);
    expect(unitsFor(CORES, "")).toBe(CORES);
  });

  it.each([
    ["", "bytes"],
    ["Ki", "KiB"],
    ["T", "TB"],
    ["odd", "odd"],
  ])("adds the current unit %j with the label %j", (unit, label) => {
    const units = unitsFor(BYTES, unit);
    expect(units.slice(0, -1)).toEqual(BYTES);
    expect(units.at(-1)).toEqual({ value: unit, label });
  });
});

import { describe, expect, it } from "vitest";
import { numberOf, round, showBytes } from "./amounts";

describe("numberOf", () => {
  it.each([
    ["2", 2],
    [2, 2],
    ["0", 0],
    ["1.5", 1.5],
    ["500m", 0.5],
    ["100u", 0.0001],
    ["7n", 7e-9],
    ["2k", 2000],
    ["3M", 3e6],
    ["4G", 4e9],
    ["1T", 1e12],
    ["1P", 1e15],
    ["1E", 1e18],
    ["1Ki", 1024],
    ["64Mi", 64 * 1024 ** 2],
    ["1.5Gi", 1.5 * 1024 ** 3],
    ["2Ti", 2 * 1024 ** 4],
    ["1Ei", 1024 ** 6],
    ["1e3", 1000],
    ["1E3", 1000],
    ["5e-1", 0.5],
    ["2e0", 2],
  ])("reads the Kubernetes quantity %j as %d", (quantity, number) => {
    expect(numberOf(quantity)).toBeCloseTo(number, 12);
  });

  it.each(["", "many", "8XB", "8Xi", "8x", "1.2.3", "-1", "50%", "1 Gi", "Gi", "null"])(
    "does not read %j as a number",
    (text) => {
      expect(numberOf(text)).toBeNaN();
    },
  );
});

describe("showBytes", () => {
  it.each([
    [0, "0 bytes"],
    [1, "1 byte"],
    [1023, "1,023 bytes"],
    [1024, "1 KiB"],
    [1536, "1.5 KiB"],
    [64 * 1024 ** 2, "64 MiB"],
    [1.25 * 1024 ** 3, "1.25 GiB"],
    [12.34 * 1024 ** 3, "12.3 GiB"],
    [1024 ** 6, "1 EiB"],
    [2048 * 1024 ** 6, "2,048 EiB"],
  ])("shows %d bytes as %j", (bytes, text) => {
    expect(showBytes(bytes)).toBe(text);
  });
});

describe("round", () => {
  it.each([
    [0, "0"],
    [0.005, "0.01"],
    [1.234, "1.23"],
    [9.999, "10"],
    [12.34, "12.3"],
    [1234.56, "1,234.6"],
  ])("shows %d as %j", (number, text) => {
    expect(round(number)).toBe(text);
  });
});

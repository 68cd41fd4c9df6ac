import { describe, expect, it } from "vitest";
import type { Setting } from "../../../../api/plans";
import { boundsOf, type Measure } from "./bounds";
import { describePeak, isRelevant, showMeasure, showTick } from "./measures";
import { scaleOf, scaleOfTimes } from "./scales";

const MIB = 1024 ** 2;
const NONE = { request: null, limit: null };

function settings(values: Record<string, unknown>): Setting[] {
  return Object.entries(values).map(([path, value]) => ({ path, value }) as Setting);
}

describe("boundsOf", () => {
  it.each<[Measure, Record<string, unknown>, object]>([
    ["cpu", { "resources.cpu.requests": "500m", "resources.cpu.limits": "1" }, { request: 0.5, limit: 1 }],
    [
      "mem",
      { "resources.mem.requests": "64Mi", "resources.mem.limits": null },
      { request: 64 * MIB, limit: null },
    ],
    [
      "cpu",
      { "resources.cpu.requests": "1", "resources.cpu.limits": "2", replicas: 3 },
      { request: 3, limit: 6 },
    ],
    ["gpu", { "resources.gpu": 2 }, { request: 2, limit: null }],
    ["gpu_mem", { "resources.gpu_mem.requests": "1Gi" }, NONE],
    ["disk", {}, NONE],
  ])("of %s in %j are %j", (measure, values, bounds) => {
    expect(boundsOf(settings(values), measure)).toEqual(bounds);
  });
});

describe("measures in words", () => {
  it.each<[Measure, number, string, string]>([
    ["cpu", 1, "1 core", "1"],
    ["cpu", 0.25, "0.25 cores", "0.25"],
    ["gpu", 1, "1 GPU", "1"],
    ["gpu", 2, "2 GPUs", "2"],
    ["mem", 64 * MIB, "64 MiB", "64 MiB"],
    ["gpu_mem", 0, "0 bytes", "0"],
  ])("show %s %d as %j, and as %j on the axis", (measure, amount, text, tick) => {
    expect(showMeasure(measure, amount)).toBe(text);
    expect(showTick(measure, amount)).toBe(tick);
  });

  it.each([
    [NONE, undefined, false],
    [NONE, 0, false],
    [NONE, 1, true],
    [{ request: 0, limit: null }, undefined, true],
    [{ request: null, limit: 1 }, 0, true],
  ])("are worth showing with %j and the peak %j: %j", (bounds, peak, expected) => {
    expect(isRelevant(bounds, peak)).toBe(expected);
  });

  it.each([
    [{ request: 256 * MIB, limit: 512 * MIB }, ["412 MiB", "512 MiB", "80% of limit"]],
    [{ request: 824 * MIB, limit: null }, ["412 MiB", "824 MiB requested", "no limit"]],
    [NONE, ["412 MiB"]],
    [{ request: 0, limit: null }, ["412 MiB"]],
  ])("describe a peak with %j using %j", (bounds, parts) => {
    const text = describePeak("mem", 412 * MIB, bounds);
    for (const part of parts) expect(text).toContain(part);
    if (parts.length === 1) expect(text).not.toContain("%");
  });
});

describe("scales", () => {
  it.each([
    [9, 4, false, [0, 5]],
    [0.9, 4, false, [0, 0.5]],
    [100, 4, false, [0, 50, 100]],
    [0, 4, false, [0, 0.5, 1]],
    [3 * MIB, 4, true, [0, MIB, 2 * MIB, 3 * MIB]],
    [1000, 4, true, [0, 512, 1024]],
  ])("up to %d with %d ticks have round values", (max, count, inBytes, ticks) => {
    const scale = scaleOf(max, count, inBytes);
    expect(scale.ticks).toEqual(ticks);
    expect(scale.max).toBeGreaterThan(max);
  });

  it.each([
    [10_000, 5, [0, 2000, 4000, 6000, 8000, 10_000]],
    [600_000, 4, [0, 300_000, 600_000]],
    [0, 4, [0, 1000]],
    [10 * 86_400_000, 4, [0, 3, 6, 9].map((days) => days * 86_400_000)],
  ])("of times up to %d with %d ticks are at whole seconds, minutes or days", (max, count, ticks) => {
    expect(scaleOfTimes(max, count).ticks).toEqual(ticks);
  });
});

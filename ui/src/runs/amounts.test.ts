import { expect, it } from "vitest";
import type { Setting } from "../api/plans";
import { doubleMemory } from "./amounts";

it.each([
  ["100Mi", "64Mi", "200Mi"],
  [null, "64Mi", "128Mi"],
  [undefined, "1.5Gi", "3Gi"],
  ["unlimited", "1G", "2G"],
  ["0", "1Gi", "2Gi"],
  ["5e8", undefined, "1000000000"],
  [undefined, undefined, undefined],
  ["0", "0", undefined],
])("doubles the memory of a run with the limit %j and the request %j", (limits, requests, doubled) => {
  const settings = [
    { path: "resources.mem.limits", value: limits },
    { path: "resources.mem.requests", value: requests },
    { path: "resources.cpu.requests", value: "7" },
  ].filter(({ value }) => value !== undefined);
  expect(doubleMemory(settings as Setting[])).toBe(doubled);
});

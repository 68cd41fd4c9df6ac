import { expect, it } from "vitest";
import { gpuMemory, limit, memoryLimit, memoryRequest } from "./amounts";
import type { Asset } from "./requests";

it.each([
  [undefined, undefined],
  [{ devices: 0 }, undefined],
  [{ devices: 1 }, "100%"],
  [{ devices: 1, memory: "50%" }, "50%"],
  [{ devices: 1, memory: { request: "50%", limit: "80%" } }, "50% to 80%"],
  [{ devices: 1, memory: { request: "50%", limit: "50%" } }, "50%"],
  [{ devices: 1, memory: { limit: "50%" } }, "50%"],
  [{ devices: 1, mig: "1g.5gb" }, "MIG 1g.5gb"],
])("shows the GPU memory of %j as %j", (gpu, text) => {
  expect(gpuMemory({ requirements: { resources: { gpu } } } as unknown as Asset)).toBe(text);
});

it("shows no GPU memory without resources", () => {
  expect(gpuMemory({ requirements: {} } as Asset)).toBeUndefined();
});

it.each([
  [undefined, undefined, undefined],
  [{ requests: "64Gi", limits: "80G" }, "64 GiB", "80 GB"],
  [{ limits: "unlimited" }, undefined, "Unlimited"],
])("shows the memory request and limit of %j as %j and %j", (mem, request, memLimit) => {
  const item = { requirements: { resources: { mem } } } as unknown as Asset;
  expect([memoryRequest(item), memoryLimit(item)]).toEqual([request, memLimit]);
});

it.each([
  [undefined, undefined],
  [{ requests: "1Gi" }, undefined],
  [{ limits: "2Gi" }, "2Gi"],
  [{ limits: "unlimited" }, "Unlimited"],
])("shows the limit of %j as %j", (amount, text) => {
  expect(limit(amount)).toBe(text);
});

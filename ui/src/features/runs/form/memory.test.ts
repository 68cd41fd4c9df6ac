import { describe, expect, it } from "vitest";
import type { Plan } from "../../../api/plans";
import { requestMemory } from "./memory";

const REQUEST = { function: "train", profile: "small", resources: { cpu: { requests: "1" } } };

function makePlan(layer: string): Plan {
  const source = { layer, name: "small", scope: null, revision: null };
  return {
    settings: [{ path: "resources.mem.requests", value: "1Gi", source, overridden: [] }],
  } as unknown as Plan;
}

function candidate(name: string, mem: unknown, gpu?: unknown) {
  return { name, requirements: { resources: { mem, ...(gpu ? { gpu } : {}) } } };
}

describe("requestMemory", () => {
  it("requests the memory if no compute resource sets it", () => {
    expect(requestMemory(REQUEST, "2Gi", makePlan("user"), [])).toEqual({
      request: { ...REQUEST, resources: { cpu: { requests: "1" }, mem: { requests: "2Gi", limits: "2Gi" } } },
    });
  });

  it.each([
    [
      "the smallest that is enough",
      [candidate("large", { limits: "8Gi" }), candidate("medium", { limits: "2Gi" })],
      "medium",
    ],
    ["one with an unlimited limit", [candidate("open", { requests: "4Gi", limits: "unlimited" })], "open"],
    ["one with only a request", [candidate("plain", { requests: "4Gi" })], "plain"],
    ["none that is too small", [candidate("tiny", { limits: "1Gi" })], undefined],
    [
      "none whose request is too small",
      [candidate("open", { requests: "1Gi", limits: "unlimited" })],
      undefined,
    ],
    ["none with different GPUs", [candidate("gpu", { limits: "8Gi" }, { devices: 1 })], undefined],
    ["none without memory", [candidate("none", undefined)], undefined],
  ])("chooses %s if a compute resource sets the memory", (_, candidates, name) => {
    const { request, note } = requestMemory(REQUEST, "2Gi", makePlan("compute_resource"), [
      candidate("small", { limits: "1Gi" }),
      ...candidates,
    ]);
    expect(request.profile).toBe(name ?? "small");
    expect(note).toContain(name ?? "no similar compute resource");
    if (!name) expect(request.resources).toHaveProperty("mem.limits", "2Gi");
  });

  it("keeps the compute resource if the amount is not a number", () => {
    const candidates = [candidate("small", { limits: "1Gi" }), candidate("large", { limits: "8Gi" })];
    expect(requestMemory(REQUEST, "lots", makePlan("compute_resource"), candidates).request.profile).toBe(
      "small",
    );
  });
});

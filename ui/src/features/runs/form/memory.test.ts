import { describe, expect, it } from "vitest";
import type { Plan } from "../../../api/plans";
import { grow } from "./memory";

const REQUEST = { function: "train", profile: "small", resources: { cpu: { requests: "1" } } };

function makePlan(layer: string): Plan {
  const source = { layer, name: "small", scope: null, revision: null };
  return {
    settings: [{ path: "resources.mem.requests", value: "1Gi", source, overrode: [] }],
  } as unknown as Plan;
}

function offer(name: string, mem: unknown, gpu?: unknown) {
  return { name, requirements: { resources: { mem, ...(gpu ? { gpu } : {}) } } };
}

describe("grow", () => {
  it("requests the memory if no compute resource sets it", () => {
    expect(grow(REQUEST, "2Gi", makePlan("user"), [])).toEqual({
      request: { ...REQUEST, resources: { cpu: { requests: "1" }, mem: { requests: "2Gi", limits: "2Gi" } } },
    });
  });

  it.each([
    [
      "the smallest that is enough",
      [offer("large", { limits: "8Gi" }), offer("medium", { limits: "2Gi" })],
      "medium",
    ],
    ["one with an unlimited request", [offer("open", { requests: "4Gi", limits: "unlimited" })], "open"],
    ["one with a request alone", [offer("plain", { requests: "4Gi" })], "plain"],
    ["none that is too small", [offer("tiny", { limits: "1Gi" })], undefined],
    ["none whose request is too small", [offer("open", { requests: "1Gi", limits: "unlimited" })], undefined],
    ["none with other GPUs", [offer("gpu", { limits: "8Gi" }, { devices: 1 })], undefined],
    ["none without memory", [offer("none", undefined)], undefined],
  ])("chooses %s if a compute resource sets the memory", (_, offered, name) => {
    const { request, note } = grow(REQUEST, "2Gi", makePlan("compute_resource"), [
      offer("small", { limits: "1Gi" }),
      ...offered,
    ]);
    expect(request.profile).toBe(name ?? "small");
    expect(note).toContain(name ?? "no compute resource");
    if (!name) expect(request.resources).toHaveProperty("mem.limits", "2Gi");
  });

  it("chooses nothing for an amount that is not a number", () => {
    const offered = [offer("small", { limits: "1Gi" }), offer("large", { limits: "8Gi" })];
    expect(grow(REQUEST, "lots", makePlan("compute_resource"), offered).request.profile).toBe("small");
  });
});

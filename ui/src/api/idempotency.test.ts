import { describe, expect, it } from "vitest";
import { addKey, forgetKey } from "./idempotency";

async function keyOf(body: string, path = "/api/v1/runs", method = "POST"): Promise<string | null> {
  const request = new Request(`https://fairlead.test${path}`, { method, ...(method !== "GET" && { body }) });
  await addKey(request);
  return request.headers.get("Idempotency-Key");
}

describe("addKey", () => {
  it("gives the same request the same key until it has a response", async () => {
    const request = new Request("https://fairlead.test/api/v1/tokens", { method: "POST", body: "a" });
    await addKey(request);
    const key = request.headers.get("Idempotency-Key");
    expect(key).toMatch(/^[0-9a-f-]{36}$/);
    expect(await keyOf("a", "/api/v1/tokens")).toBe(key);
    forgetKey(request);
    expect(await keyOf("a", "/api/v1/tokens")).not.toBe(key);
  });

  it("gives different requests different keys", async () => {
    const keys = [await keyOf("a"), await keyOf("b"), await keyOf("a", "/api/v1/roles")];
    expect(new Set(keys).size).toBe(3);
  });

  it.each([
    ["GET", "/api/v1/runs"],
    ["PUT", "/api/v1/policies/platform/platform"],
    ["DELETE", "/api/v1/runs/r1"],
    ["POST", "/api/v1/projects/forest/runs/preview"],
    ["POST", "/api/v1/templates/check"],
    ["POST", "/api/v1/policies/platform/platform/validate"],
    ["POST", "/api/v1/sessions"],
  ])("adds no key to %s %s", async (method, path) => {
    expect(await keyOf("a", path, method)).toBeNull();
  });
});

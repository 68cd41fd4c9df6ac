import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { jsonResponse, stubFetch } from "../testing/runs";
import { client, ifMatch, unwrap } from "./client";
import { connected } from "./connection";
import { isProblem, Unreachable, violationsOf } from "./problems";
import { expired, markSignedIn } from "./sessions";

const PROBLEM = {
  status: 409,
  code: "conflict",
  detail: "It exists.",
  violations: [{ path: "a", rule: "b", message: "c" }],
};

beforeEach(() => void vi.useFakeTimers());
afterEach(() => {
  vi.useRealTimers();
  expired.set(false);
  connected.set(true);
});

async function failureOf(response: Promise<{ data?: unknown }>): Promise<unknown> {
  return unwrap(response).then(
    () => undefined,
    (error) => error,
  );
}

it.each([
  [{ revision: 3 }, '"3"'],
  [{ revision: 3, id: "0190a3b2-9b1a4c6e" }, '"3-9b1a4c6e"'],
  [{ revision: 0 }, '"0"'],
])("sends %j as the entity tag %s", (record, tag) => {
  expect(ifMatch(record)).toEqual({ "If-Match": tag });
});

describe("responses", () => {
  it("are returned as data", async () => {
    stubFetch(() => jsonResponse({ user: "ada" }));
    expect(await unwrap(client.GET("/api/v1/me"))).toEqual({ user: "ada" });
  });

  it("with a problem become errors that carry its violations", async () => {
    stubFetch(() => jsonResponse(PROBLEM, 409));
    const error = await failureOf(client.GET("/api/v1/me"));
    expect(isProblem(error, "conflict")).toBe(true);
    expect(isProblem(error, "not_found")).toBe(false);
    expect(violationsOf(error)).toEqual(PROBLEM.violations);
    expect((error as Error).message).toBe("It exists.");
  });

  it("without a problem become errors with their status", async () => {
    stubFetch(() => new Response("<html>", { status: 502 }));
    const error = await failureOf(client.GET("/api/v1/me"));
    expect(error).toMatchObject({ problem: { status: 502, code: "http" } });
  });

  it.each([
    ["/api/v1/me", true],
    ["/api/v1/sessions", false],
  ] as const)("with status 401 from %s end the session: %j", async (path, isExpired) => {
    stubFetch(() => jsonResponse({ ...PROBLEM, status: 401 }, 401));
    await failureOf(path === "/api/v1/me" ? client.GET(path) : client.POST(path, { body: {} as never }));
    expect(expired.get()).toBe(isExpired);
  });

  it("with status 401 do not end a session that began after the request was sent", async () => {
    let respond: (response: Response) => void = () => {};
    stubFetch(() => new Promise((resolve) => (respond = resolve)));
    const failure = failureOf(client.GET("/api/v1/me"));
    await vi.runAllTimersAsync();
    markSignedIn();
    respond(jsonResponse({ ...PROBLEM, status: 401 }, 401));
    await failure;
    expect(expired.get()).toBe(false);
  });

  it("that never arrive mean that the server is unreachable", async () => {
    stubFetch(() => Promise.reject(new TypeError("Failed to fetch")));
    expect(await failureOf(client.GET("/api/v1/me"))).toBeInstanceOf(Unreachable);
    expect(connected.get()).toBe(false);
  });
});

it("returns no violations for errors that are not problems", () => {
  expect(violationsOf(new Error("no"))).toEqual([]);
  expect(violationsOf(undefined)).toEqual([]);
});

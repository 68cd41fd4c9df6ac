import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { FakeEventSource, jsonResponse, stubFetch } from "../../../../testing/runs";
import { LogStream } from "./logStream";

const ENTRY = { at: "2024-05-01T12:00:00Z", stream: "stdout", cursor: 0 };

let page: EventTarget & { hidden: boolean };
let log: LogStream;
let updates: number;

function open(attempt?: number): void {
  log = new LogStream("r1", attempt, () => {
    updates += 1;
  });
  log.start();
}

/** Waits for responses, frames and timers. */
async function pass(milliseconds = 0): Promise<void> {
  await vi.advanceTimersByTimeAsync(milliseconds);
}

function hide(hidden: boolean): void {
  page.hidden = hidden;
  page.dispatchEvent(new Event("visibilitychange"));
}

beforeEach(() => {
  vi.useFakeTimers();
  FakeEventSource.install();
  updates = 0;
  page = Object.assign(new EventTarget(), { hidden: false });
  vi.stubGlobal("document", page);
  vi.stubGlobal("requestAnimationFrame", (draw: () => void) => setTimeout(draw, 16));
  vi.stubGlobal("cancelAnimationFrame", clearTimeout);
});

afterEach(() => {
  log.stop();
  vi.useRealTimers();
});

it.each([
  [undefined, "/api/v1/runs/r1/logs?follow=true&cursor=0"],
  [2, "/api/v1/runs/r1/logs?follow=true&cursor=0&attempt=2"],
])("opens the stream of the attempt %j", (attempt, address) => {
  open(attempt);
  expect(FakeEventSource.last.url).toBe(address);
  expect(log.phase).toBe("connecting");
});

it("follows until the log ends, and updates once per frame", async () => {
  open();
  FakeEventSource.last.send("open");
  for (const text of ["a\n", "b\n"]) FakeEventSource.last.send("log", { ...ENTRY, text }, "2");
  expect(log.phase).toBe("following");
  await pass(16);
  expect(updates).toBe(1);
  FakeEventSource.last.send("end");
  expect(log.phase).toBe("ended");
  expect(log.lines.items.map(({ text }) => text)).toEqual(["a", "b"]);
  expect(FakeEventSource.last.readyState).toBe(FakeEventSource.CLOSED);
});

describe("after the connection breaks", () => {
  it("resumes at the cursor", async () => {
    stubFetch(() => jsonResponse({}));
    open();
    FakeEventSource.last.send("open");
    FakeEventSource.last.send("log", { ...ENTRY, text: "a\n" }, "7");
    FakeEventSource.last.send("error");
    expect(log.phase).toBe("reconnecting");
    await pass(500);
    expect(FakeEventSource.opened).toHaveLength(2);
    expect(FakeEventSource.last.url).toContain("cursor=7");
  });

  it("waits longer each time, up to five seconds", async () => {
    stubFetch(() => jsonResponse({}, 503));
    open();
    for (const pause of [500, 1000, 2000, 4000, 5000, 5000]) {
      const before = FakeEventSource.opened.length;
      FakeEventSource.last.send("error");
      await pass(pause - 1);
      expect(FakeEventSource.opened).toHaveLength(before);
      await pass(1);
      expect(FakeEventSource.opened).toHaveLength(before + 1);
    }
  });

  it.each([403, 404, 409, 422])("gives up if the server responds with status %d", async (status) => {
    stubFetch(() => jsonResponse({ status, code: "no", detail: "No." }, status));
    open();
    FakeEventSource.last.send("error");
    await pass(10_000);
    expect(log.phase).toBe("rejected");
    expect(FakeEventSource.opened).toHaveLength(1);
    log.retry();
    expect(log).toMatchObject({ phase: "connecting", error: null });
  });
});

describe("in a hidden tab", () => {
  it("disconnects, and reconnects when the tab is shown", () => {
    open();
    hide(true);
    expect(log.phase).toBe("paused");
    expect(FakeEventSource.last.readyState).toBe(FakeEventSource.CLOSED);
    hide(false);
    expect(log.phase).toBe("connecting");
    expect(FakeEventSource.opened).toHaveLength(2);
  });

  it("ignores a late response", async () => {
    stubFetch(() => jsonResponse({}));
    open();
    FakeEventSource.last.send("error");
    hide(true);
    await pass(10_000);
    expect(log.phase).toBe("paused");
    expect(FakeEventSource.opened).toHaveLength(1);
  });

  it("does not reread a log that has ended", () => {
    open();
    FakeEventSource.last.send("end");
    hide(true);
    hide(false);
    expect(log.phase).toBe("ended");
    expect(FakeEventSource.opened).toHaveLength(1);
  });
});

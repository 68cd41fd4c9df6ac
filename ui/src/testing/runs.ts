/** Fake runs and server responses for tests. */
import { vi } from "vitest";
import type { Run } from "../api/runs";

export function makeRun(fields: Partial<Run>): Run {
  const run = {
    id: "r1",
    revision: 1,
    state: "running",
    active: true,
    scope: "project/forest",
    function: "train",
  };
  return { ...run, created_by: "ada", created_at: "2024-05-01T12:00:00Z", ...fields } as Run;
}

export function jsonResponse(body: unknown, status = 200): Response {
  const type = status < 400 ? "application/json" : "application/problem+json";
  return new Response(JSON.stringify(body), { status, headers: { "Content-Type": type } });
}

/** Answers all requests with `answer` until the test ends. Returns a list that collects the request URLs. */
export function stubFetch(answer: (request: Request) => Response | Promise<Response>): string[] {
  const addresses: string[] = [];
  vi.stubGlobal("fetch", async (request: Request) => {
    addresses.push(request.url);
    return answer(request);
  });
  return addresses;
}

/** A fake EventSource. Tests send its events. */
export class FakeEventSource extends EventTarget {
  static readonly CONNECTING = 0;
  static readonly OPEN = 1;
  static readonly CLOSED = 2;
  static opened: FakeEventSource[] = [];
  readyState = FakeEventSource.OPEN;

  constructor(readonly url: string) {
    super();
    FakeEventSource.opened.push(this);
  }

  /** Replaces the browser's EventSource until the test ends. */
  static install(): void {
    FakeEventSource.opened = [];
    vi.stubGlobal("EventSource", FakeEventSource);
  }

  static get last(): FakeEventSource {
    return FakeEventSource.opened.at(-1)!;
  }

  send(type: string, data?: unknown, lastEventId = ""): void {
    this.dispatchEvent(
      data === undefined
        ? new Event(type)
        : new MessageEvent(type, { data: JSON.stringify(data), lastEventId }),
    );
  }

  close(): void {
    this.readyState = FakeEventSource.CLOSED;
  }
}

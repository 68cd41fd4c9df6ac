import { QueryClient, QueryObserver } from "@tanstack/react-query";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { FakeEventSource, jsonResponse, makeRun, stubFetch } from "../testing/runs";
import { Feed } from "./runEvents";
import { RUN, type Run } from "./runs";
import { expired } from "./sessions";

const NEWEST_FIRST = ["/api/v1/runs", {}, "sort=-created_at"];
const OLD = "2024-05-01T00:00:00Z";
const OLDER = "2024-04-01T00:00:00Z";

let queries: QueryClient;
let feed: Feed;
let reads: ReturnType<typeof vi.spyOn>;

/** Shows a list of runs, as the table does. */
function show(key: readonly unknown[], runs: Run[], next_cursor: string | null = null): void {
  queries.setQueryData(key, { pages: [{ items: runs, next_cursor, total: runs.length }], pageParams: [""] });
  new QueryObserver(queries, { queryKey: key, staleTime: Number.POSITIVE_INFINITY }).subscribe(
    () => undefined,
  );
}

function statesIn(key: readonly unknown[]): string[] {
  const data = queries.getQueryData<{ pages: { items: Run[] }[] }>(key)!;
  return data.pages.flatMap((page) => page.items.map(({ id, state }) => `${id} ${state}`));
}

/** How often lists were read again so far, once all pauses are over. */
function countReads(): number {
  vi.advanceTimersByTime(1000);
  return reads.mock.calls.filter(([filters]: unknown[]) => (filters as { exact?: boolean }).exact).length;
}

beforeEach(() => {
  vi.useFakeTimers();
  FakeEventSource.install();
  stubFetch(() => jsonResponse({ user: "ada", roles: [] }));
  queries = new QueryClient();
  reads = vi.spyOn(queries, "invalidateQueries").mockResolvedValue();
  feed = new Feed(queries);
  feed.open();
  FakeEventSource.last.send("ready", {});
});

afterEach(() => {
  feed.close();
  queries.clear();
  expired.set(false);
  vi.useRealTimers();
});

describe("a run that changed", () => {
  it("is replaced in the list without reading it again", () => {
    show(NEWEST_FIRST, [makeRun({ id: "a", state: "queued", revision: 1 })]);
    FakeEventSource.last.send("run", makeRun({ id: "a", state: "running", revision: 2 }));
    expect(statesIn(NEWEST_FIRST)).toEqual(["a running"]);
    expect(countReads()).toBe(0);
  });

  it("is not replaced by an older revision", () => {
    show(NEWEST_FIRST, [makeRun({ id: "a", state: "completed", revision: 5 })]);
    queries.setQueryData([RUN, "a"], makeRun({ id: "a", state: "completed", revision: 5 }));
    FakeEventSource.last.send("run", makeRun({ id: "a", state: "running", revision: 4 }));
    expect(statesIn(NEWEST_FIRST)).toEqual(["a completed"]);
    expect(queries.getQueryData<Run>([RUN, "a"])?.state).toBe("completed");
  });

  it("is replaced on its own page, if that was read", () => {
    queries.setQueryData([RUN, "a"], makeRun({ id: "a", revision: 1 }));
    FakeEventSource.last.send("run", makeRun({ id: "a", state: "failed", revision: 2 }));
    FakeEventSource.last.send("run", makeRun({ id: "b", state: "failed", revision: 2 }));
    expect(queries.getQueryData<Run>([RUN, "a"])?.state).toBe("failed");
    expect(queries.getQueryData([RUN, "b"])).toBeUndefined();
  });

  it("makes everything else that is known of the run be read again", () => {
    queries.setQueryData([RUN, "a"], makeRun({ id: "a", revision: 1 }));
    FakeEventSource.last.send("run", makeRun({ id: "a", revision: 2 }));
    const { predicate } = reads.mock.calls[0]![0] as {
      predicate: (query: { queryKey: unknown[] }) => boolean;
    };
    const keys = [
      [RUN, "a", "why"],
      [RUN, "a"],
      [RUN, "b", "why"],
      ["/api/v1/functions", "a", "why"],
    ];
    expect(keys.map((queryKey) => predicate({ queryKey }))).toEqual([true, false, false, false]);
  });

  it("leaves a list whose filter it no longer matches, which is then read again", () => {
    const live = ["/api/v1/runs", {}, "live=true&sort=-created_at"];
    show(live, [makeRun({ id: "a" }), makeRun({ id: "b" })]);
    FakeEventSource.last.send("run", makeRun({ id: "a", live: false, state: "completed", revision: 2 }));
    expect(statesIn(live)).toEqual(["b running"]);
    expect(countReads()).toBe(1);
  });

  it("makes a list that is sorted by state be read again", () => {
    const sorted = ["/api/v1/runs", {}, "sort=state"];
    show(sorted, [makeRun({ id: "a" })]);
    FakeEventSource.last.send("run", makeRun({ id: "a", state: "failed", revision: 2 }));
    expect(countReads()).toBe(1);
  });
});

describe("a run that is new", () => {
  it("makes the list be read again", () => {
    show(NEWEST_FIRST, []);
    FakeEventSource.last.send("run", makeRun({ id: "a" }));
    expect(countReads()).toBe(1);
  });

  it("changes nothing in a list that rules it out", () => {
    show(["/api/v1/runs", {}, "state=failed"], []);
    FakeEventSource.last.send("run", makeRun({ id: "a", state: "running" }));
    expect(countReads()).toBe(0);
  });

  it("changes nothing in a list whose loaded part ends above it", () => {
    show(NEWEST_FIRST, [makeRun({ id: "a", created_at: OLD })], "more");
    FakeEventSource.last.send("run", makeRun({ id: "b", created_at: OLDER }));
    expect(countReads()).toBe(0);
  });

  it("makes lists be read once a second at most", () => {
    show(NEWEST_FIRST, []);
    for (let number = 0; number < 50; number++)
      FakeEventSource.last.send("run", makeRun({ id: `r${number}` }));
    expect(countReads()).toBe(1);
    FakeEventSource.last.send("many", {});
    expect(countReads()).toBe(2);
  });
});

it("removes a run that was deleted from all lists", () => {
  show(NEWEST_FIRST, [makeRun({ id: "a" }), makeRun({ id: "b" })]);
  FakeEventSource.last.send("gone", { id: "a" });
  expect(statesIn(NEWEST_FIRST)).toEqual(["b running"]);
  expect(reads).toHaveBeenCalledWith({ queryKey: [RUN, "a"], exact: true });
});

describe("the connection", () => {
  it("reads lists again when it is restored, but not when it is first made", () => {
    show(NEWEST_FIRST, []);
    expect(countReads()).toBe(0);
    FakeEventSource.last.send("ready", {});
    expect(countReads()).toBe(1);
  });

  it("is left to the browser while that reconnects", () => {
    FakeEventSource.last.readyState = FakeEventSource.CONNECTING;
    FakeEventSource.last.send("error");
    vi.advanceTimersByTime(60_000);
    expect(FakeEventSource.opened).toHaveLength(1);
  });

  it("is made again after pauses that grow to 20 seconds", () => {
    const pauses = [1500, 3000, 6000, 12_000, 20_000, 20_000];
    pauses.forEach((pause, at) => {
      FakeEventSource.last.readyState = FakeEventSource.CLOSED;
      FakeEventSource.last.send("error");
      vi.advanceTimersByTime(pause - 1);
      expect(FakeEventSource.opened).toHaveLength(at + 1);
      vi.advanceTimersByTime(1);
      expect(FakeEventSource.opened).toHaveLength(at + 2);
    });
    FakeEventSource.last.send("ready", {});
    FakeEventSource.last.send("error");
    vi.advanceTimersByTime(1500);
    expect(FakeEventSource.opened).toHaveLength(pauses.length + 2);
  });

  it("reports that the session expired", () => {
    FakeEventSource.last.send("error", { code: "unauthenticated" });
    expect(expired.get()).toBe(true);
  });

  it("is closed, and opened once", () => {
    feed.open();
    expect(FakeEventSource.opened).toHaveLength(1);
    feed.close();
    expect(FakeEventSource.last.readyState).toBe(FakeEventSource.CLOSED);
    feed.open();
    expect(FakeEventSource.opened).toHaveLength(2);
  });
});

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
let refetches: ReturnType<typeof vi.spyOn>;

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

/** The number of list refetches so far, including pending ones. */
function countRefetches(): number {
  vi.advanceTimersByTime(1000);
  return refetches.mock.calls.filter(([filters]: unknown[]) => (filters as { exact?: boolean }).exact).length;
}

beforeEach(() => {
  vi.useFakeTimers();
  FakeEventSource.install();
  stubFetch(() => jsonResponse({ user: "ada", roles: [] }));
  queries = new QueryClient();
  refetches = vi.spyOn(queries, "invalidateQueries").mockResolvedValue();
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
  it("is replaced in the list without a refetch", () => {
    show(NEWEST_FIRST, [makeRun({ id: "a", state: "queued", revision: 1 })]);
    FakeEventSource.last.send("run", makeRun({ id: "a", state: "running", revision: 2 }));
    expect(statesIn(NEWEST_FIRST)).toEqual(["a running"]);
    expect(countRefetches()).toBe(0);
  });

  it("is not replaced by an older revision", () => {
    show(NEWEST_FIRST, [makeRun({ id: "a", state: "completed", revision: 5 })]);
    queries.setQueryData([RUN, "a"], makeRun({ id: "a", state: "completed", revision: 5 }));
    FakeEventSource.last.send("run", makeRun({ id: "a", state: "running", revision: 4 }));
    expect(statesIn(NEWEST_FIRST)).toEqual(["a completed"]);
    expect(queries.getQueryData<Run>([RUN, "a"])?.state).toBe("completed");
  });

  it("is replaced on its own page, if that was loaded", () => {
    queries.setQueryData([RUN, "a"], makeRun({ id: "a", revision: 1 }));
    FakeEventSource.last.send("run", makeRun({ id: "a", state: "failed", revision: 2 }));
    FakeEventSource.last.send("run", makeRun({ id: "b", state: "failed", revision: 2 }));
    expect(queries.getQueryData<Run>([RUN, "a"])?.state).toBe("failed");
    expect(queries.getQueryData([RUN, "b"])).toBeUndefined();
  });

  it("refetches all other data of the run", () => {
    queries.setQueryData([RUN, "a"], makeRun({ id: "a", revision: 1 }));
    FakeEventSource.last.send("run", makeRun({ id: "a", revision: 2 }));
    const { predicate } = refetches.mock.calls[0]![0] as {
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

  it("is removed from a list whose filter it no longer matches, and the list is refetched", () => {
    const active = ["/api/v1/runs", {}, "active=true&sort=-created_at"];
    show(active, [makeRun({ id: "a" }), makeRun({ id: "b" })]);
    FakeEventSource.last.send("run", makeRun({ id: "a", active: false, state: "completed", revision: 2 }));
    expect(statesIn(active)).toEqual(["b running"]);
    expect(countRefetches()).toBe(1);
  });

  it("refetches a list that is sorted by state", () => {
    const sorted = ["/api/v1/runs", {}, "sort=state"];
    show(sorted, [makeRun({ id: "a" })]);
    FakeEventSource.last.send("run", makeRun({ id: "a", state: "failed", revision: 2 }));
    expect(countRefetches()).toBe(1);
  });
});

describe("a new run", () => {
  it("refetches the list", () => {
    show(NEWEST_FIRST, []);
    FakeEventSource.last.send("run", makeRun({ id: "a" }));
    expect(countRefetches()).toBe(1);
  });

  it("changes nothing in a list that excludes it", () => {
    show(["/api/v1/runs", {}, "state=failed"], []);
    FakeEventSource.last.send("run", makeRun({ id: "a", state: "running" }));
    expect(countRefetches()).toBe(0);
  });

  it("changes nothing in a list if it belongs below the loaded rows", () => {
    show(NEWEST_FIRST, [makeRun({ id: "a", created_at: OLD })], "more");
    FakeEventSource.last.send("run", makeRun({ id: "b", created_at: OLDER }));
    expect(countRefetches()).toBe(0);
  });

  it("refetches lists at most once per second", () => {
    show(NEWEST_FIRST, []);
    for (let number = 0; number < 50; number++)
      FakeEventSource.last.send("run", makeRun({ id: `r${number}` }));
    expect(countRefetches()).toBe(1);
    FakeEventSource.last.send("reload", {});
    expect(countRefetches()).toBe(2);
  });
});

it("removes a deleted run from all lists", () => {
  show(NEWEST_FIRST, [makeRun({ id: "a" }), makeRun({ id: "b" })]);
  FakeEventSource.last.send("deleted", { id: "a" });
  expect(statesIn(NEWEST_FIRST)).toEqual(["b running"]);
  expect(refetches).toHaveBeenCalledWith({ queryKey: [RUN, "a"], exact: true });
});

describe("the connection", () => {
  it("refetches lists when it is restored, but not when it is first established", () => {
    show(NEWEST_FIRST, []);
    expect(countRefetches()).toBe(0);
    FakeEventSource.last.send("ready", {});
    expect(countRefetches()).toBe(1);
  });

  it("is not reopened while the browser is reconnecting", () => {
    FakeEventSource.last.readyState = FakeEventSource.CONNECTING;
    FakeEventSource.last.send("error");
    vi.advanceTimersByTime(60_000);
    expect(FakeEventSource.opened).toHaveLength(1);
  });

  it("is retried with delays of up to 20 seconds", () => {
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

  it("opens only once until it is closed", () => {
    feed.open();
    expect(FakeEventSource.opened).toHaveLength(1);
    feed.close();
    expect(FakeEventSource.last.readyState).toBe(FakeEventSource.CLOSED);
    feed.open();
    expect(FakeEventSource.opened).toHaveLength(2);
  });
});

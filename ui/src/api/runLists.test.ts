import { QueryClient, QueryObserver } from "@tanstack/react-query";
import { describe, expect, it, vi } from "vitest";
import { jsonResponse, makeRun, stubFetch } from "../testing/runs";
import { MAX_REFETCHED_PAGES } from "./lists";
import {
  dependsOnState,
  excludes,
  findRunLists,
  isBeyondLoaded,
  isRunList,
  refetchRunLists,
  replaceRun,
} from "./runLists";
import type { Run } from "./runs";

const RUNS = "/api/v1/runs";
const OF_PROJECT = "/api/v1/projects/{project}/runs";

function keyOf(query: string, project?: string) {
  return project === undefined ? [RUNS, {}, query] : [OF_PROJECT, { project }, query];
}

function pageOf(ids: string[], next_cursor: string | null = null) {
  return { items: ids.map((id) => makeRun({ id })), next_cursor, total: ids.length as number | null };
}

/** A query client with an active list of runs whose cache contains the given pages. */
function show(key: readonly unknown[], pages: ReturnType<typeof pageOf>[]): QueryClient {
  const queries = new QueryClient();
  queries.setQueryData(key, { pages, pageParams: pages.map(() => "") });
  new QueryObserver(queries, { queryKey: key, staleTime: Number.POSITIVE_INFINITY }).subscribe(
    () => undefined,
  );
  return queries;
}

function idsIn(queries: QueryClient, key: readonly unknown[]): string[][] {
  const data = queries.getQueryData<{ pages: { items: Run[] }[] }>(key);
  return data!.pages.map((page) => page.items.map(({ id }) => id));
}

it.each([
  [[RUNS, {}, ""], true],
  [[OF_PROJECT, { project: "forest" }, ""], true],
  [["/api/v1/runs/{run_id}", "r1"], false],
  [["/api/v1/functions", {}, ""], false],
])("recognizes whether %j is the key of a list of runs", (key, expected) => {
  expect(isRunList(key)).toBe(expected);
});

describe("excludes", () => {
  const run = makeRun({
    state: "running",
    active: true,
    scope: "project/forest",
    function: "train",
    created_by: "ada@example.org",
  });

  it.each([
    ["", false],
    ["state=running", false],
    ["state=failed", true],
    ["state=!failed", false],
    ["state=!running", false],
    ["state=failed,running", false],
    ["active=true", false],
    ["active=false", true],
    ["active=any", false],
    ["scope=project/forest", false],
    ["scope=project/meadow", true],
    ["function=tra", false],
    ["function==train", false],
    ["function==tra", true],
    ["created_by==ada@example.org", false],
    ["created_by==eve", true],
    ["state=running&state=failed", true],
    ["search=other&sort=-created_at&created_at=>2024", false],
  ])("for the query %j is %j", (query, expected) => {
    expect(excludes(keyOf(query), run)).toBe(expected);
  });

  it.each([
    ["forest", false],
    ["meadow", true],
  ])("for the runs of project %s is %j", (project, expected) => {
    expect(excludes(keyOf("", project), run)).toBe(expected);
  });
});

describe("dependsOnState", () => {
  it.each([
    ["", false],
    ["sort=-created_at", false],
    ["sort=created_at", false],
    ["function=tra&search=x&scope=project/a", false],
    ["sort=state", true],
    ["sort=-finished_at", true],
    ["state=!failed", true],
    ["active=true", true],
    ["reason=OOMKilled", true],
  ])("for the query %j is %j", (query, expected) => {
    expect(dependsOnState(keyOf(query))).toBe(expected);
  });
});

describe("isBeyondLoaded", () => {
  const pages = [
    { items: [makeRun({ created_at: "2024-05-02" })], next_cursor: "more" as string | null, total: 9 },
  ];

  it.each([
    ["an older run if the list has more pages", "sort=-created_at", "2024-05-01", "more", true],
    ["a newer run", "sort=-created_at", "2024-05-03", "more", false],
    ["an older run if the list is completely loaded", "sort=-created_at", "2024-05-01", null, false],
    ["an older run if the list has a different order", "sort=created_at", "2024-05-01", "more", false],
  ])("is correct for %s", (_, query, created_at, next_cursor, expected) => {
    expect(isBeyondLoaded(keyOf(query), [{ ...pages[0]!, next_cursor }], makeRun({ created_at }))).toBe(
      expected,
    );
  });

  it("is false for a list without pages", () => {
    expect(isBeyondLoaded(keyOf("sort=-created_at"), [], makeRun({}))).toBe(false);
  });
});

describe("findRunLists", () => {
  it("finds the lists of runs that are shown", () => {
    const key = keyOf("sort=-created_at");
    const queries = show(key, [pageOf(["a"])]);
    queries.setQueryData(keyOf("state=failed"), { pages: [], pageParams: [] });
    expect(findRunLists(queries)).toEqual([{ key, pages: [pageOf(["a"])], isFetching: false }]);
  });
});

describe("replaceRun", () => {
  it("replaces a run at its position", () => {
    const key = keyOf("");
    const queries = show(key, [pageOf(["a", "b"]), pageOf(["c"])]);
    replaceRun(queries, key, "b", makeRun({ id: "b", state: "failed" }));
    expect(idsIn(queries, key)).toEqual([["a", "b"], ["c"]]);
    expect(findRunLists(queries)[0]!.pages[0]!.items[1]!.state).toBe("failed");
  });

  it("removes a run", () => {
    const key = keyOf("");
    const queries = show(key, [pageOf(["a", "b"]), pageOf(["c"])]);
    replaceRun(queries, key, "c", null);
    expect(idsIn(queries, key)).toEqual([["a", "b"], []]);
  });

  it("does not change a list that is not loaded yet", () => {
    const queries = new QueryClient();
    replaceRun(queries, keyOf(""), "a", null);
    expect(queries.getQueryData(keyOf(""))).toBeUndefined();
  });
});

describe("refetchRunLists", () => {
  it("refetches only the first page of a long list, and keeps the runs that were pushed off it", async () => {
    const key = keyOf("sort=-created_at");
    const pages = Array.from({ length: MAX_REFETCHED_PAGES + 1 }, (_, at) =>
      pageOf([`a${at}`, `b${at}`], `cursor${at}`),
    );
    const queries = show(key, pages);
    const addresses = stubFetch(() => jsonResponse(pageOf(["new", "a0", "b3"], "fresh")));
    await refetchRunLists(queries);
    expect(addresses).toHaveLength(1);
    expect(new URL(addresses[0]!).searchParams.get("limit")).toBe("200");
    expect(idsIn(queries, key)).toEqual([
      ["new", "a0", "b3", "b0"],
      ["a1", "b1"],
      ["a2", "b2"],
      ["a3"],
      ["a4", "b4"],
      ["a5", "b5"],
    ]);
    expect(findRunLists(queries)[0]!.pages[0]).toMatchObject({ next_cursor: "cursor0", total: 3 });
  });

  it("keeps a long list if the server fails", async () => {
    const key = keyOf("");
    const queries = show(
      key,
      Array.from({ length: MAX_REFETCHED_PAGES + 1 }, () => pageOf(["a"])),
    );
    stubFetch(() => jsonResponse({ status: 500, code: "internal", detail: "no" }, 500));
    await refetchRunLists(queries);
    expect(idsIn(queries, key)).toHaveLength(MAX_REFETCHED_PAGES + 1);
  });

  it("refetches a short list completely", async () => {
    const key = keyOf("");
    const queries = show(key, [pageOf(["a"])]);
    const invalidate = vi.spyOn(queries, "invalidateQueries").mockResolvedValue();
    const addresses = stubFetch(() => jsonResponse({}));
    await refetchRunLists(queries);
    expect(invalidate).toHaveBeenCalledWith({ queryKey: key, exact: true });
    expect(addresses).toEqual([]);
  });
});

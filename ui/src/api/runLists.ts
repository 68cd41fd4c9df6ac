/** Updates cached lists of runs when a run changes. */
import type { InfiniteData, QueryClient, QueryKey } from "@tanstack/react-query";
import {
  firstPage,
  type ListPath,
  loadPage,
  MAX_REFETCHED_PAGES,
  type PageOf,
  type PathParameters,
} from "./lists";
import type { Run } from "./runs";

type Pages = InfiniteData<PageOf<Run>>;

/** Fields that change during a run. Filtering or sorting by one of them makes a list depend on the run's state. */
const MUTABLE_FIELDS = ["state", "reason", "active", "finished_at", "updated_at", "updated_by", "revision"];
const BY_AGE = ["-created_at", "created_at", null];
/** A filter that is a plain value without an operator. */
const PLAIN = /^[\w.@+/-]+$/;
const ANY = "any";

export function isRunList([path]: QueryKey): boolean {
  return path === "/api/v1/runs" || path === "/api/v1/projects/{project}/runs";
}

/** The lists of runs on the screen, with their cached pages. */
export function findRunLists(queries: QueryClient) {
  return queries
    .getQueryCache()
    .findAll({ type: "active", predicate: ({ queryKey }) => isRunList(queryKey) })
    .map(({ queryKey, state }) => ({
      key: queryKey,
      // A list from useAll has no pages, so it is refetched completely.
      pages: (state.data as Pages | undefined)?.pages ?? [],
      isFetching: state.fetchStatus === "fetching",
    }));
}

/** Whether a list's filters definitely exclude a run. False if only the server can decide. */
export function excludes([, parameters, query]: QueryKey, run: Run): boolean {
  const { project } = parameters as PathParameters;
  if (project !== undefined && run.scope !== `project/${project}`) return true;
  const params = new URLSearchParams(String(query));
  const isOther = (name: string, value: string) =>
    params.getAll(name).some((filter) => PLAIN.test(filter) && filter !== value && filter !== ANY);
  const isOtherText = (name: string, value: string) =>
    params.getAll(name).some((filter) => filter.startsWith("=") && filter !== `=${value}`);
  return (
    isOther("active", String(run.active)) ||
    isOther("state", run.state) ||
    isOther("scope", run.scope) ||
    isOtherText("function", run.function) ||
    isOtherText("created_by", run.created_by)
  );
}

/** Whether a list's filters or sort order depend on fields that change during a run. */
export function dependsOnState([, , query]: QueryKey): boolean {
  const params = new URLSearchParams(String(query));
  return MUTABLE_FIELDS.some((name) => params.has(name)) || !BY_AGE.includes(params.get("sort"));
}

/** Whether a run belongs to a page of the list that is not loaded yet. */
export function isBeyondLoaded([, , query]: QueryKey, pages: Pages["pages"], run: Run): boolean {
  const last = pages.at(-1);
  const oldest = last?.items.at(-1);
  const isNewestFirst = new URLSearchParams(String(query)).get("sort") === "-created_at";
  return Boolean(isNewestFirst && last?.next_cursor && oldest && run.created_at < oldest.created_at);
}

/** Replaces a run in a cached list, or removes it if `run` is null. */
export function replaceRun(queries: QueryClient, key: QueryKey, id: string, run: Run | null): void {
  queries.setQueryData<Pages>(
    key,
    (before) =>
      before?.pages && {
        ...before,
        pages: before.pages.map((page) => ({
          ...page,
          items: page.items.flatMap((item) => (item.id !== id ? [item] : run ? [run] : [])),
        })),
      },
  );
}

/** Refetches lists of runs, but only the first page of long lists, because refetching all pages takes seconds. */
export async function refetchRunLists(queries: QueryClient): Promise<void> {
  await Promise.all(
    findRunLists(queries).map(({ key, pages }) =>
      pages.length > MAX_REFETCHED_PAGES
        ? refetchFirstPage(queries, key).catch(() => undefined)
        : queries.invalidateQueries({ queryKey: key, exact: true }),
    ),
  );
}

/** Refetches the first page of a list, and keeps the runs that were pushed off that page by new ones. */
async function refetchFirstPage(queries: QueryClient, key: QueryKey): Promise<void> {
  const [path, parameters, query] = key as [ListPath, PathParameters, string];
  const fresh = (await loadPage(path, firstPage(query), parameters)) as PageOf<Run>;
  queries.setQueryData<Pages>(key, (before) => before && { ...before, pages: merge(before.pages, fresh) });
}

function merge([first, ...others]: Pages["pages"], fresh: PageOf<Run>): Pages["pages"] {
  const known = new Set(fresh.items.map((item) => item.id));
  const rest = (page: PageOf<Run>) => page.items.filter((item) => !known.has(item.id));
  // Keep the old cursor, because the second page begins where the old first page ended.
  const head = { ...first!, total: fresh.total, items: [...fresh.items, ...rest(first!)] };
  return [head, ...others.map((page) => ({ ...page, items: rest(page) }))];
}

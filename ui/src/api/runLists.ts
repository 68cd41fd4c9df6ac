/** Lists of runs that were read: which runs belong in them, and how one of them is changed in place. */
import type { InfiniteData, QueryClient, QueryKey } from "@tanstack/react-query";
import { FEW_PAGES, firstPage, type ListPath, loadPage, type PageOf, type PathParameters } from "./lists";
import type { Run } from "./runs";

type Pages = InfiniteData<PageOf<Run>>;

/** What changes of a run while it runs: a list that is filtered or sorted by it changes with it. */
const CHANGING = ["state", "reason", "live", "finished_at", "updated_at", "updated_by", "revision"];
const BY_AGE = ["-created_at", "created_at", null];
/** A filter that says one word, and nothing of how to compare it. */
const PLAIN = /^[\w.@+/-]+$/;
const ANY = "any";

export function isRunList([path]: QueryKey): boolean {
  return path === "/api/v1/runs" || path === "/api/v1/projects/{project}/runs";
}

/** The lists of runs that somebody looks at, with what was read of them. */
export function findRunLists(queries: QueryClient) {
  return queries
    .getQueryCache()
    .findAll({ type: "active", predicate: ({ queryKey }) => isRunList(queryKey) })
    .map(({ queryKey, state }) => ({
      key: queryKey,
      // One that is read as a whole has no pages, and is read again as a whole.
      pages: (state.data as Pages | undefined)?.pages ?? [],
      isBeingRead: state.fetchStatus === "fetching",
    }));
}

/** Whether a list cannot have a run in it, by what it asks for. Where that is not plain to see, it may. */
export function rulesOut([, parameters, query]: QueryKey, run: Run): boolean {
  const { project } = parameters as PathParameters;
  if (project !== undefined && run.scope !== `project/${project}`) return true;
  const asked = new URLSearchParams(String(query));
  const isOther = (name: string, value: string) =>
    asked.getAll(name).some((said) => PLAIN.test(said) && said !== value && said !== ANY);
  const isOtherText = (name: string, value: string) =>
    asked.getAll(name).some((said) => said.startsWith("=") && said !== `=${value}`);
  return (
    isOther("live", String(run.live)) ||
    isOther("state", run.state) ||
    isOther("scope", run.scope) ||
    isOtherText("function", run.function) ||
    isOtherText("created_by", run.created_by)
  );
}

/** Whether what a list holds, or in which order, depends on how far runs are. */
export function dependsOnState([, , query]: QueryKey): boolean {
  const asked = new URLSearchParams(String(query));
  return CHANGING.some((name) => asked.has(name)) || !BY_AGE.includes(asked.get("sort"));
}

/** Whether a run stands further down than a list was read: it will be there once somebody scrolls so far. */
export function isBelow([, , query]: QueryKey, pages: Pages["pages"], run: Run): boolean {
  const last = pages.at(-1);
  const oldest = last?.items.at(-1);
  const isNewestFirst = new URLSearchParams(String(query)).get("sort") === "-created_at";
  return Boolean(isNewestFirst && last?.next_cursor && oldest && run.created_at < oldest.created_at);
}

/** Puts another run in the place of one, or none. */
export function putInto(queries: QueryClient, key: QueryKey, id: string, run: Run | null): void {
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

/** Reads lists of runs again: of long ones only the beginning, because all of their pages take seconds. */
export async function readRunLists(queries: QueryClient): Promise<void> {
  await Promise.all(
    findRunLists(queries).map(({ key, pages }) =>
      pages.length > FEW_PAGES
        ? readHead(queries, key).catch(() => undefined)
        : queries.invalidateQueries({ queryKey: key, exact: true }),
    ),
  );
}

/** Reads the first page of a list again: what is new there is added, and what was pushed out of it stays. */
async function readHead(queries: QueryClient, key: QueryKey): Promise<void> {
  const [path, parameters, query] = key as [ListPath, PathParameters, string];
  const fresh = (await loadPage(path, firstPage(query), parameters)) as PageOf<Run>;
  queries.setQueryData<Pages>(key, (before) => before && { ...before, pages: merge(before.pages, fresh) });
}

function merge([first, ...others]: Pages["pages"], fresh: PageOf<Run>): Pages["pages"] {
  const known = new Set(fresh.items.map((item) => item.id));
  const rest = (page: PageOf<Run>) => page.items.filter((item) => !known.has(item.id));
  // The cursor stays that of the page as it was: the next one begins where that ended.
  const head = { ...first!, total: fresh.total, items: [...fresh.items, ...rest(first!)] };
  return [head, ...others.map((page) => ({ ...page, items: rest(page) }))];
}

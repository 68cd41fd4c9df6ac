/** Paginated lists from the API, loaded page by page while scrolling. */
import { keepPreviousData, useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { client, unwrap } from "./client";
import type { paths } from "./schema";

const PAGE_SIZE = "200";
// The largest page size that the server allows.
const ALL_SIZE = "500";
const REFETCH_MS = 30_000;
/** Longer lists are not refetched, because that takes seconds. Only server-sent events update their rows. */
export const MAX_REFETCHED_PAGES = 5;

export interface PageOf<Item> {
  items: Item[];
  next_cursor: string | null;
  total: number | null;
}
type ResponseBody<P extends keyof paths> = paths[P] extends {
  get: { responses: { 200: { content: { "application/json": infer Body } } } };
}
  ? Body
  : never;

/** Paths that return a page of a list. */
export type ListPath = {
  [P in keyof paths]: ResponseBody<P> extends { items: unknown[]; next_cursor?: unknown } ? P : never;
}[keyof paths];
export type ItemOf<P extends ListPath> = ResponseBody<P> extends { items: (infer Item)[] } ? Item : never;
export type PathParameters = Record<string, string>;

export async function loadPage<P extends ListPath>(
  path: P,
  query: URLSearchParams,
  parameters: PathParameters = {},
): Promise<PageOf<ItemOf<P>>> {
  const options = { params: { path: parameters }, querySerializer: () => query.toString() };
  // biome-ignore lint/suspicious/noExplicitAny: the caller knows which parameters the path needs
  return unwrap(client.GET(path as any, options as any)) as Promise<PageOf<ItemOf<P>>>;
}

/** The query for the first page, including the total count. */
export function firstPage(query: URLSearchParams | string): URLSearchParams {
  const params = new URLSearchParams(query);
  params.set("limit", PAGE_SIZE);
  params.set("total", "true");
  return params;
}

/** An infinite list: the loaded items, the total count, and a function to load more. */
export function useList<P extends ListPath>(
  path: P,
  query: URLSearchParams,
  parameters: PathParameters = {},
) {
  const result = useInfiniteQuery({
    queryKey: [path, parameters, query.toString()],
    queryFn: ({ pageParam }) => {
      const page = firstPage(query);
      if (pageParam) {
        // Counting takes time, and the first page already includes the total.
        page.delete("total");
        page.set("cursor", pageParam);
      }
      return loadPage(path, page, parameters);
    },
    initialPageParam: "",
    getNextPageParam: (last) => last.next_cursor,
    // Keeps the old rows visible while the rows for a new filter are loading.
    placeholderData: keepPreviousData,
    refetchInterval: ({ state }) =>
      state.data && state.data.pages.length > MAX_REFETCHED_PAGES ? false : REFETCH_MS,
    refetchOnWindowFocus: ({ state }) => (state.data?.pages.length ?? 0) <= MAX_REFETCHED_PAGES,
  });
  const pages = result.data?.pages ?? [];
  const items = pages.flatMap((page) => page.items);
  return {
    items,
    total: pages[0]?.total ?? null,
    error: result.error,
    // A search examines a limited number of records per page, so matches can follow a page without any.
    isLoading: result.isPending || (items.length === 0 && result.hasNextPage && !result.error),
    isStale: result.isPlaceholderData,
    hasMore: result.hasNextPage,
    loadMore: () => {
      // Concurrent fetches could overwrite each other's pages. After an error, the user retries.
      if (result.hasNextPage && !result.isFetching && !result.isError) void result.fetchNextPage();
    },
    retry: () => void result.refetch(),
  };
}
export type List<Item> = Omit<ReturnType<typeof useList>, "items"> & { items: Item[] };

/** All pages of a list, for lists that stay small, such as scopes and roles. */
export function useAll<P extends ListPath>(
  path: P,
  query: Record<string, string> = {},
  parameters: PathParameters = {},
) {
  return useQuery({
    queryKey: [path, parameters, "all", query],
    queryFn: async () => {
      const items: ItemOf<P>[] = [];
      let cursor: string | null = "";
      while (cursor !== null) {
        const params = new URLSearchParams({ ...query, limit: ALL_SIZE, ...(cursor && { cursor }) });
        const page: PageOf<ItemOf<P>> = await loadPage(path, params, parameters);
        items.push(...page.items);
        cursor = page.next_cursor;
      }
      return items;
    },
  });
}

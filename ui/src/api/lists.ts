/** Lists of the server, page after page as somebody scrolls. */
import { keepPreviousData, useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { client, unwrap } from "./client";
import type { paths } from "./schema";

const PAGE_SIZE = "200";
const ALL_SIZE = "500";
const EVERY_MS = 30_000;
/** Of more pages than these, the rows change with the events of the server alone: to read all of them takes seconds. */
export const FEW_PAGES = 5;

export interface PageOf<Item> {
  items: Item[];
  next_cursor: string | null;
  total: number | null;
}
type Answer<P extends keyof paths> = paths[P] extends {
  get: { responses: { 200: { content: { "application/json": infer Body } } } };
}
  ? Body
  : never;

/** The addresses that answer a page of a list. */
export type ListPath = {
  [P in keyof paths]: Answer<P> extends { items: unknown[]; next_cursor?: unknown } ? P : never;
}[keyof paths];
export type ItemOf<P extends ListPath> = Answer<P> extends { items: (infer Item)[] } ? Item : never;
export type PathParameters = Record<string, string>;

export async function loadPage<P extends ListPath>(
  path: P,
  query: URLSearchParams,
  parameters: PathParameters = {},
): Promise<PageOf<ItemOf<P>>> {
  const asked = { params: { path: parameters }, querySerializer: () => query.toString() };
  // biome-ignore lint/suspicious/noExplicitAny: which parameters belong to which list is known to the caller
  return unwrap(client.GET(path as any, asked as any)) as Promise<PageOf<ItemOf<P>>>;
}

/** What is asked for the beginning of a list, with how many there are. */
export function firstPage(query: URLSearchParams | string): URLSearchParams {
  const asked = new URLSearchParams(query);
  asked.set("limit", PAGE_SIZE);
  asked.set("total", "true");
  return asked;
}

/** A list as it is scrolled through: what was loaded, how many there are, and how to get more. */
export function useList<P extends ListPath>(
  path: P,
  query: URLSearchParams,
  parameters: PathParameters = {},
) {
  const found = useInfiniteQuery({
    queryKey: [path, parameters, query.toString()],
    queryFn: ({ pageParam }) => {
      const page = firstPage(query);
      if (pageParam) {
        page.delete("total");
        page.set("cursor", pageParam);
      }
      return loadPage(path, page, parameters);
    },
    initialPageParam: "",
    getNextPageParam: (last) => last.next_cursor,
    placeholderData: keepPreviousData,
    refetchInterval: ({ state }) => (state.data && state.data.pages.length > FEW_PAGES ? false : EVERY_MS),
    refetchOnWindowFocus: ({ state }) => (state.data?.pages.length ?? 0) <= FEW_PAGES,
  });
  const pages = found.data?.pages ?? [];
  return {
    items: pages.flatMap((page) => page.items),
    total: pages[0]?.total ?? null,
    error: found.error,
    isLoading: found.isPending,
    isStale: found.isPlaceholderData,
    hasMore: found.hasNextPage,
    loadMore: () => {
      if (found.hasNextPage && !found.isFetching) void found.fetchNextPage();
    },
    retry: () => void found.refetch(),
  };
}
export type List<Item> = Omit<ReturnType<typeof useList>, "items"> & { items: Item[] };

/** All of a list, for those that stay small: places, roles. */
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
        const asked = new URLSearchParams({ ...query, limit: ALL_SIZE, ...(cursor && { cursor }) });
        const page: PageOf<ItemOf<P>> = await loadPage(path, asked, parameters);
        items.push(...page.items);
        cursor = page.next_cursor;
      }
      return items;
    },
  });
}

/** Applies server-sent events about runs to the query cache, so that no polling is needed. */
import { type QueryClient, useQueryClient } from "@tanstack/react-query";
import { useEffect } from "react";
import { client, unwrap } from "./client";
import { markConnected } from "./connection";
import {
  dependsOnState,
  excludes,
  findRunLists,
  isBeyondLoaded,
  refetchRunLists,
  replaceRun,
} from "./runLists";
import { RUN, type Run } from "./runs";
import { expired, markExpired } from "./sessions";

const ADDRESS = "/api/v1/events";
const RETRY_MS = 1500;
const MAX_RETRY_MS = 20_000;
/** The minimum time between two list refetches. */
const REFETCH_MS = 1000;

/** Listens while the tab is visible. Hidden tabs disconnect, because browsers allow only six connections per server. */
export function useLiveRuns(): void {
  const queries = useQueryClient();
  const isExpired = expired.use();
  useEffect(() => {
    if (isExpired) return;
    const feed = new Feed(queries);
    const connect = () => (document.hidden ? feed.close() : feed.open());
    connect();
    document.addEventListener("visibilitychange", connect);
    return () => {
      document.removeEventListener("visibilitychange", connect);
      feed.close();
    };
  }, [queries, isExpired]);
}

export class Feed {
  private source: EventSource | null = null;
  private retryTimer: ReturnType<typeof setTimeout> | undefined;
  private refetchTimer: ReturnType<typeof setTimeout> | undefined;
  private retryDelay = RETRY_MS;
  private wasOpen = false;

  constructor(private readonly queries: QueryClient) {}

  open(): void {
    if (this.source) return;
    clearTimeout(this.retryTimer);
    const source = new EventSource(ADDRESS);
    this.source = source;
    source.addEventListener("ready", () => this.onReady());
    source.addEventListener("run", (event) => this.onRun(JSON.parse(event.data) as Run));
    source.addEventListener("deleted", (event) =>
      this.onDeleted((JSON.parse(event.data) as { id: string }).id),
    );
    source.addEventListener("reload", () => this.refetchLists());
    source.addEventListener("error", (event) => this.onError(event));
  }

  close(): void {
    clearTimeout(this.retryTimer);
    clearTimeout(this.refetchTimer);
    this.refetchTimer = undefined;
    this.source?.close();
    this.source = null;
  }

  private onReady(): void {
    markConnected();
    this.retryDelay = RETRY_MS;
    // Events may have been missed while disconnected. On the first connection, nothing is cached yet.
    if (this.wasOpen) {
      void this.queries.invalidateQueries({ queryKey: [RUN] });
      this.refetchLists();
    }
    this.wasOpen = true;
  }

  private onError(event: Event): void {
    const problem = event instanceof MessageEvent ? (JSON.parse(event.data) as { code: string }) : null;
    if (problem?.code === "unauthenticated") markExpired();
    // An EventSource does not report why it failed, so send a request to find out whether the server responds.
    else if (!problem) void unwrap(client.GET("/api/v1/me")).catch(() => undefined);
    // The browser reconnects automatically if the server closed the stream or is down.
    if (!problem && this.source?.readyState === EventSource.CONNECTING) return;
    this.close();
    this.retryTimer = setTimeout(() => this.open(), this.retryDelay);
    this.retryDelay = Math.min(2 * this.retryDelay, MAX_RETRY_MS);
  }

  private onRun(run: Run): void {
    const { queries } = this;
    const { data: before, fetchStatus } = queries.getQueryState<Run>([RUN, run.id]) ?? {};
    // A response may already have returned a newer revision than this event.
    if (before && before.revision < run.revision) queries.setQueryData([RUN, run.id], run);
    // Refetch the run's other data, such as its plan, usage and result. Refetch the run itself only if a request
    // is in flight that may return an older revision.
    void queries.invalidateQueries({
      predicate: ({ queryKey: [path, id, part] }) =>
        path === RUN && id === run.id && (part !== undefined || fetchStatus === "fetching"),
    });
    const isUpToDate = findRunLists(queries).map((list) => this.updateList(run, list));
    if (isUpToDate.includes(false)) this.refetchLists();
  }

  /** Updates a run in a cached list. Returns false if the list must be refetched. */
  private updateList(run: Run, { key, pages, isFetching }: ReturnType<typeof findRunLists>[number]): boolean {
    const old = pages.flatMap((page) => page.items).find((item) => item.id === run.id);
    if (excludes(key, run)) {
      if (old) replaceRun(this.queries, key, run.id, null);
      return !old && !isFetching;
    }
    if (!old) return isBeyondLoaded(key, pages, run);
    if (old.revision < run.revision) replaceRun(this.queries, key, run.id, run);
    // A new state can change the run's position in the list.
    return !isFetching && !dependsOnState(key);
  }

  private onDeleted(id: string): void {
    // The run's page refetches the run and shows that it was not found.
    void this.queries.invalidateQueries({ queryKey: [RUN, id], exact: true });
    for (const { key } of findRunLists(this.queries)) replaceRun(this.queries, key, id, null);
    this.refetchLists();
  }

  private refetchLists(): void {
    this.refetchTimer ??= setTimeout(() => {
      this.refetchTimer = undefined;
      void refetchRunLists(this.queries);
    }, REFETCH_MS);
  }
}

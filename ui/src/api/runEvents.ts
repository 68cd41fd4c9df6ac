/** Runs as they change: what the server tells of them is written into what was read before, so that nobody polls. */
import { type QueryClient, useQueryClient } from "@tanstack/react-query";
import { useEffect } from "react";
import { client, unwrap } from "./client";
import { noteAnswer } from "./connection";
import { dependsOnState, findRunLists, isBelow, putInto, readRunLists, rulesOut } from "./runLists";
import { RUN, type Run } from "./runs";
import { expired, noteExpiry } from "./sessions";

const ADDRESS = "/api/v1/events";
const AGAIN_MS = 1500;
const LONGEST_MS = 20_000;
/** Lists are read anew at most so often, however many runs come and go. */
const PAUSE_MS = 1000;

/** Listens as long as somebody looks at the page. A hidden tab lets go: a browser has six connections to a server. */
export function useLiveRuns(): void {
  const queries = useQueryClient();
  const isExpired = expired.use();
  useEffect(() => {
    if (isExpired) return;
    const feed = new Feed(queries);
    const follow = () => (document.hidden ? feed.close() : feed.open());
    follow();
    document.addEventListener("visibilitychange", follow);
    return () => {
      document.removeEventListener("visibilitychange", follow);
      feed.close();
    };
  }, [queries, isExpired]);
}

export class Feed {
  private source: EventSource | null = null;
  private again: ReturnType<typeof setTimeout> | undefined;
  private pause: ReturnType<typeof setTimeout> | undefined;
  private patience = AGAIN_MS;
  private wasOpen = false;

  constructor(private readonly queries: QueryClient) {}

  open(): void {
    if (this.source) return;
    clearTimeout(this.again);
    const source = new EventSource(ADDRESS);
    this.source = source;
    source.addEventListener("ready", () => this.begin());
    source.addEventListener("run", (event) => this.take(JSON.parse(event.data) as Run));
    source.addEventListener("gone", (event) => this.drop((JSON.parse(event.data) as { id: string }).id));
    source.addEventListener("many", () => this.readLists());
    source.addEventListener("error", (event) => this.restart(event));
  }

  close(): void {
    clearTimeout(this.again);
    clearTimeout(this.pause);
    this.pause = undefined;
    this.source?.close();
    this.source = null;
  }

  private begin(): void {
    noteAnswer();
    this.patience = AGAIN_MS;
    // What happened while nobody listened is read; the first time nothing was read before.
    if (this.wasOpen) {
      void this.queries.invalidateQueries({ queryKey: [RUN] });
      this.readLists();
    }
    this.wasOpen = true;
  }

  private restart(event: Event): void {
    const problem = event instanceof MessageEvent ? (JSON.parse(event.data) as { code: string }) : null;
    if (problem?.code === "unauthenticated") noteExpiry();
    // A stream does not say why it ended; another question is answered, or is not.
    else if (!problem) void unwrap(client.GET("/api/v1/me")).catch(() => undefined);
    // The browser tries again by itself where the server ended the stream, or is gone.
    if (!problem && this.source?.readyState === EventSource.CONNECTING) return;
    this.close();
    this.again = setTimeout(() => this.open(), this.patience);
    this.patience = Math.min(2 * this.patience, LONGEST_MS);
  }

  private take(run: Run): void {
    const { queries } = this;
    const { data: before, fetchStatus } = queries.getQueryState<Run>([RUN, run.id]) ?? {};
    if (before && before.revision < run.revision) queries.setQueryData([RUN, run.id], run);
    // What is known of it besides: why it waits, what it used, what came of it. And itself, where an older answer
    // is still on its way.
    void queries.invalidateQueries({
      predicate: ({ queryKey: [path, id, part] }) =>
        path === RUN && id === run.id && (part !== undefined || fetchStatus === "fetching"),
    });
    const isWhole = findRunLists(queries).map((list) => this.place(run, list));
    if (isWhole.includes(false)) this.readLists();
  }

  /** Puts a run where it belongs in a list; false where that must be read again. */
  private place(run: Run, { key, pages, isBeingRead }: ReturnType<typeof findRunLists>[number]): boolean {
    const old = pages.flatMap((page) => page.items).find((item) => item.id === run.id);
    if (rulesOut(key, run)) {
      if (old) putInto(this.queries, key, run.id, null);
      return !old && !isBeingRead;
    }
    if (!old) return isBelow(key, pages, run);
    if (old.revision < run.revision) putInto(this.queries, key, run.id, run);
    // Another state may mean another place in the order.
    return !isBeingRead && !dependsOnState(key);
  }

  private drop(id: string): void {
    // A page that shows it asks, and is told that it is gone.
    void this.queries.invalidateQueries({ queryKey: [RUN, id], exact: true });
    for (const { key } of findRunLists(this.queries)) putInto(this.queries, key, id, null);
    this.readLists();
  }

  private readLists(): void {
    this.pause ??= setTimeout(() => {
      this.pause = undefined;
      void readRunLists(this.queries);
    }, PAUSE_MS);
  }
}

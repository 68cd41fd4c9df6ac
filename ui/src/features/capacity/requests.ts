/** Loads the runs that are scheduled on nodes. */
import { useQuery } from "@tanstack/react-query";
import { loadPage } from "../../api/lists";
import type { Run } from "../../api/runs";

const RUNS = "/api/v1/runs";
const REFETCH_MS = 5_000;
const PAGE_SIZE = 500;
/** Limits how many runs the capacity page loads. The runs table shows all of them. */
const MAX_PAGES = 4;
export const MAX_RUNS = MAX_PAGES * PAGE_SIZE;

/** The newest scheduled runs, by ID. */
export function useScheduledRuns() {
  return useQuery({
    // This query needs its own key, because data cached under a list's key consists of pages.
    queryKey: [`${RUNS}/scheduled`],
    queryFn: loadScheduledRuns,
    refetchInterval: REFETCH_MS,
  });
}

async function loadScheduledRuns(): Promise<Record<string, Run>> {
  const runs: Record<string, Run> = {};
  let cursor: string | null = "";
  for (let page = 0; page < MAX_PAGES && cursor !== null; page++) {
    const query = new URLSearchParams({ active: "true", state: "!queued", limit: String(PAGE_SIZE) });
    if (cursor) query.set("cursor", cursor);
    const loaded: Awaited<ReturnType<typeof loadPage<typeof RUNS>>> = await loadPage(RUNS, query);
    for (const run of loaded.items) runs[run.id] = run;
    cursor = loaded.next_cursor;
  }
  return runs;
}

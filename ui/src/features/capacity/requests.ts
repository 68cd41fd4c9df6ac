/** The runs that have a place somewhere, and what each of them holds. */
import { useQuery } from "@tanstack/react-query";
import { loadPage } from "../../api/lists";
import type { Run } from "../../api/runs";

const RUNS = "/api/v1/runs";
const EVERY_MS = 5_000;
const PAGE_SIZE = 500;
/** Whoever looks for more finds them in the table of runs. */
const MOST_PAGES = 4;
export const MOST_HOLDERS = MOST_PAGES * PAGE_SIZE;

/** By id. */
export function useHolders() {
  return useQuery({
    // Not the key of the lists: these are no pages.
    queryKey: [`${RUNS}/holding`],
    queryFn: loadHolders,
    refetchInterval: EVERY_MS,
  });
}

async function loadHolders(): Promise<Record<string, Run>> {
  const found: Record<string, Run> = {};
  let cursor: string | null = "";
  for (let page = 0; page < MOST_PAGES && cursor !== null; page++) {
    const asked = new URLSearchParams({ active: "true", state: "!queued", limit: String(PAGE_SIZE) });
    if (cursor) asked.set("cursor", cursor);
    const answer: Awaited<ReturnType<typeof loadPage<typeof RUNS>>> = await loadPage(RUNS, asked);
    for (const run of answer.items) found[run.id] = run;
    cursor = answer.next_cursor;
  }
  return found;
}

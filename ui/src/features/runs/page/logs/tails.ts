/** How a log ends, for those who only want to see that. */
import { useQuery } from "@tanstack/react-query";
import { client, unwrap } from "../../../../api/client";
import { RUN, type Run } from "../../../../api/runs";
import { strip } from "./colors";
import { type Entry, Lines } from "./lines";

const SHOWN = 12;
const LONGEST = 400;
/** Logs are read from their beginning, a quarter of a megabyte at a time: of one that is longer, the end is not sought. */
const MOST_PAGES = 16;

/** The last lines of a run that has ended; null where the log is too long to be read for them. */
export function useTail(run: Run) {
  return useQuery({
    queryKey: [RUN, run.id, "tail"],
    queryFn: () => readTail(run.id),
    enabled: !run.active,
    staleTime: Number.POSITIVE_INFINITY,
  });
}

interface Page {
  entries: Entry[];
  cursor: number;
  complete: boolean;
}

async function readTail(id: string): Promise<string[] | null> {
  const lines = new Lines();
  let cursor = 0;
  for (let page = 0; page < MOST_PAGES; page++) {
    const params = { path: { run_id: id }, query: { cursor } };
    const read = (await unwrap(client.GET(`${RUN}/logs`, { params }))) as unknown as Page;
    for (const entry of read.entries) lines.add(entry);
    if (read.complete || read.cursor === cursor)
      return lines.kept.slice(-SHOWN).map((line) => shorten(strip(line.text)));
    cursor = read.cursor;
  }
  return null;
}

function shorten(text: string): string {
  return text.length > LONGEST ? `${text.slice(0, LONGEST)} …` : text;
}

/** The last lines of a log. */
import { useQuery } from "@tanstack/react-query";
import { client, unwrap } from "../../../../api/client";
import { RUN, type Run } from "../../../../api/runs";
import { strip } from "./colors";
import { type Entry, Lines } from "./lines";

const MAX_LINES = 12;
const MAX_LINE_LENGTH = 400;
/** The API reads logs from the start in pages of 256 KiB. The tail of longer logs is not loaded. */
const MAX_PAGES = 16;

/** The last log lines of an ended run. Null if the log is too long to load. */
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
  for (let page = 0; page < MAX_PAGES; page++) {
    const params = { path: { run_id: id }, query: { cursor } };
    const response = (await unwrap(client.GET(`${RUN}/logs`, { params }))) as unknown as Page;
    for (const entry of response.entries) lines.add(entry);
    if (response.complete || response.cursor === cursor)
      return lines.items.slice(-MAX_LINES).map((line) => shorten(strip(line.text)));
    cursor = response.cursor;
  }
  return null;
}

function shorten(text: string): string {
  return text.length > MAX_LINE_LENGTH ? `${text.slice(0, MAX_LINE_LENGTH)} …` : text;
}

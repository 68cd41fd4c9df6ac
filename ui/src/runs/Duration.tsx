import type { Run } from "../api/runs";
import { showSpan } from "../format/durations";
import { useNow } from "../format/useNow";
import { NONE } from "../table/columns";

/** How long a run has run; of a live one, until now. */
export function Duration({ run }: { run: Run }) {
  const now = useNow(run.live && run.started_at !== null);
  if (!run.started_at) return NONE;
  return <span className="number">{showSpan(run.started_at, run.finished_at, now)}</span>;
}

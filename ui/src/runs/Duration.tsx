import type { Run } from "../api/runs";
import { showSpan } from "../format/durations";
import { useNow } from "../format/useNow";
import { NONE } from "../table/columns";

/** The duration of a run, up to now if it is active. */
export function Duration({ run }: { run: Run }) {
  const now = useNow(run.active && run.started_at !== null);
  if (!run.started_at) return NONE;
  return <span className="number">{showSpan(run.started_at, run.finished_at, now)}</span>;
}

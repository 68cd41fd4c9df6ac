/** The log of a run: follow, search, filter and download. */
import { Alert, Text } from "@mantine/core";
import { IconPlugConnectedX } from "@tabler/icons-react";
import { useRef, useState } from "react";
import type { Run } from "../../../../api/runs";
import { ProblemAlert } from "../../../../shell/Problem";
import { useAttempt } from "../attempts";
import classes from "./Logs.module.css";
import { LogView, type LogViewHandle } from "./LogView";
import type { LogStream } from "./logStream";
import { type LogFilter, Selection } from "./selection";
import { type DisplayOptions, Toolbar } from "./Toolbar";
import { useLog } from "./useLog";

const NO_FILTER: LogFilter = { stream: "all", search: "", isOnlyMatches: false };

export function Logs({ run }: { run: Run }) {
  const attempt = useAttempt(run);
  // Resets the view when a different attempt is selected.
  return <Log key={attempt} run={run} attempt={attempt} />;
}

function Log({ run, attempt }: { run: Run; attempt: number | undefined }) {
  const log = useLog(run.id, attempt);
  const [filter, setFilter] = useState(NO_FILTER);
  const [options, setOptions] = useState<DisplayOptions>({ hasTimes: false, isWrapped: false });
  const [isFollowing, setFollowing] = useState(true);
  const [current, setCurrent] = useState(-1);
  const selection = useSelection(log, filter);
  const view = useRef<LogViewHandle>(null);
  const changeFilter = (change: Partial<LogFilter>) => {
    setFilter({ ...filter, ...change });
    setCurrent(-1);
  };
  const goTo = (step: 1 | -1) => {
    const count = selection.hits.length;
    if (count === 0) return;
    // The first search starts at the visible lines.
    const from = current < 0 ? view.current!.firstHit(step) : current + step;
    // The remainder of a negative number is negative in JavaScript.
    const next = ((from % count) + count) % count;
    setCurrent(next);
    setFollowing(false);
    view.current!.show(selection.hits[next]!);
  };
  return (
    <section className={classes.logs} aria-label="Log">
      <Toolbar
        run={run}
        attempt={attempt}
        filter={filter}
        onFilter={changeFilter}
        options={options}
        onOptions={setOptions}
        hits={selection.hits.length}
        current={current}
        onGo={goTo}
      />
      <ConnectionAlert log={log} />
      <LogView
        ref={view}
        selection={selection}
        options={options}
        search={filter.search}
        currentLine={selection.hits[current]}
        isFollowing={isFollowing}
        onFollow={setFollowing}
        empty={<Text size="sm">{describeEmpty(run, log, filter)}</Text>}
      />
      <Foot run={run} log={log} selection={selection} />
    </section>
  );
}

/** The filtered lines. Extended as the log grows, and rebuilt when the filter changes. */
function useSelection(log: LogStream, filter: LogFilter): Selection {
  const ref = useRef<Selection>(null);
  if (!ref.current?.matches(log.lines, filter)) ref.current = new Selection(log.lines, filter);
  ref.current.extend();
  return ref.current;
}

function ConnectionAlert({ log }: { log: LogStream }) {
  if (log.phase === "rejected") return <ProblemAlert error={log.error} onRetry={() => log.retry()} />;
  if (log.phase !== "reconnecting") return null;
  return (
    <Alert color="orange" role="status" icon={<IconPlugConnectedX size={18} />} p="xs">
      Reconnecting. The log will resume where it stopped.
    </Alert>
  );
}

function Foot({ run, log, selection }: { run: Run; log: LogStream; selection: Selection }) {
  const { lines, phase } = log;
  const shown = selection.count === lines.items.length ? "" : `${selection.count.toLocaleString("en")} of `;
  const states: Partial<Record<typeof phase, string>> = {
    connecting: "Loading",
    following: run.started_at ? "Live" : "Waiting to start",
    reconnecting: "Reconnecting",
    ended: "Complete",
  };
  return (
    <div className={classes.foot}>
      <span role="status" className={classes.phase} data-phase={phase}>
        {states[phase]}
      </span>
      <span className="number">
        {shown}
        {lines.count.toLocaleString("en")} {lines.count === 1 ? "line" : "lines"}
        {lines.dropped > 0 && `; download the log to see the first ${lines.dropped.toLocaleString("en")}`}
      </span>
    </div>
  );
}

function describeEmpty(run: Run, log: LogStream, filter: LogFilter): string {
  if (log.lines.count > 0) {
    return filter.search && filter.isOnlyMatches
      ? `No lines match “${filter.search}”.`
      : "No output on this stream.";
  }
  if (log.phase === "rejected") return "No log available.";
  if (log.phase === "ended") {
    return run.started_at ? "No output." : "The run never started.";
  }
  if (log.phase === "connecting") return "Loading the log.";
  return run.started_at ? "No output yet." : "Not started yet. Output will appear here.";
}

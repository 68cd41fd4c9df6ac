/** What a run writes, as it comes: followed, searched, filtered, downloaded. */
import { Alert, Text } from "@mantine/core";
import { IconPlugConnectedX } from "@tabler/icons-react";
import { useRef, useState } from "react";
import type { Run } from "../../../../api/runs";
import { ProblemAlert } from "../../../../shell/Problem";
import { useAttempt } from "../attempts";
import type { Following } from "./following";
import classes from "./Logs.module.css";
import { LogView, type LogViewHandle } from "./LogView";
import { Selection, type Wanted } from "./selecting";
import { type Look, Toolbar } from "./Toolbar";
import { useLog } from "./useLog";

const EVERYTHING: Wanted = { stream: "all", search: "", isOnlyMatches: false };

export function Logs({ run }: { run: Run }) {
  const attempt = useAttempt(run);
  // Another try, another log.
  return <Log key={attempt} run={run} attempt={attempt} />;
}

function Log({ run, attempt }: { run: Run; attempt: number | undefined }) {
  const log = useLog(run.id, attempt);
  const [wanted, setWanted] = useState(EVERYTHING);
  const [look, setLook] = useState<Look>({ hasTimes: false, isWrapped: false });
  const [isFollowing, setFollowing] = useState(true);
  const [current, setCurrent] = useState(-1);
  const selection = useSelection(log, wanted);
  const view = useRef<LogViewHandle>(null);
  const want = (change: Partial<Wanted>) => {
    setWanted({ ...wanted, ...change });
    setCurrent(-1);
  };
  const goTo = (step: 1 | -1) => {
    const count = selection.hits.length;
    if (count === 0) return;
    // The first time, from what is in sight.
    const from = current < 0 ? view.current!.firstHit(step) : current + step;
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
        wanted={wanted}
        onWant={want}
        look={look}
        onLook={setLook}
        hits={selection.hits.length}
        current={current}
        onGo={goTo}
      />
      <Trouble log={log} />
      <LogView
        ref={view}
        selection={selection}
        look={look}
        search={wanted.search}
        currentLine={selection.hits[current]}
        isFollowing={isFollowing}
        onFollow={setFollowing}
        empty={<Text size="sm">{tellEmpty(run, log, wanted)}</Text>}
      />
      <Foot run={run} log={log} selection={selection} />
    </section>
  );
}

/** The lines that are wanted. It grows with the log, and is made anew where something else is wanted. */
function useSelection(log: Following, wanted: Wanted): Selection {
  const kept = useRef<Selection>(null);
  if (!kept.current?.isOf(log.lines, wanted)) kept.current = new Selection(log.lines, wanted);
  kept.current.extend();
  return kept.current;
}

function Trouble({ log }: { log: Following }) {
  if (log.phase === "refused") return <ProblemAlert error={log.error} onRetry={() => log.retry()} />;
  if (log.phase !== "reconnecting") return null;
  return (
    <Alert color="orange" role="status" icon={<IconPlugConnectedX size={18} />} p="xs">
      Reconnecting. The log goes on where it stopped.
    </Alert>
  );
}

function Foot({ run, log, selection }: { run: Run; log: Following; selection: Selection }) {
  const { lines, phase } = log;
  const shown = selection.count === lines.kept.length ? "" : `${selection.count.toLocaleString("en")} of `;
  const states: Partial<Record<typeof phase, string>> = {
    connecting: "Reading",
    following: run.started_at ? "Live" : "Waiting for its start",
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
        {lines.dropped > 0 && `; the first ${lines.dropped.toLocaleString("en")} are in the download alone`}
      </span>
    </div>
  );
}

function tellEmpty(run: Run, log: Following, wanted: Wanted): string {
  if (log.lines.count > 0) {
    return wanted.search && wanted.isOnlyMatches
      ? `No line has “${wanted.search}” in it.`
      : "It wrote nothing to this stream.";
  }
  if (log.phase === "refused") return "There is no log to be shown.";
  if (log.phase === "ended") {
    return run.started_at ? "It wrote nothing." : "It never started, and wrote nothing.";
  }
  if (log.phase === "connecting") return "Reading the log.";
  return run.started_at
    ? "It has written nothing yet."
    : "It has not started yet. What it writes will appear here.";
}

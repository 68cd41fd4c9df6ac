/** Timeline of a run's states, with times, durations and reasons. */
import { Text, ThemeIcon } from "@mantine/core";
import {
  IconAlertTriangle,
  IconCheck,
  IconHourglass,
  IconPlayerPlay,
  IconPlayerStop,
  IconRocket,
} from "@tabler/icons-react";
import type { Run } from "../../../../api/runs";
import { showSpan } from "../../../../format/durations";
import { showState } from "../../../../format/runs";
import { sentence } from "../../../../format/sentences";
import { showClock, showMoment } from "../../../../format/times";
import { useNow } from "../../../../format/useNow";
import { Loading } from "../../../../shell/Loading";
import { Card } from "../../../../shell/Page";
import { ProblemAlert } from "../../../../shell/Problem";
import { type RunEvent, useEvents } from "../requests";
import classes from "./Overview.module.css";

const ICONS: Record<string, typeof IconCheck> = {
  queued: IconHourglass,
  pending: IconRocket,
  starting: IconRocket,
  running: IconPlayerPlay,
  degraded: IconAlertTriangle,
  stopping: IconPlayerStop,
  completed: IconCheck,
  failed: IconAlertTriangle,
  stopped: IconPlayerStop,
};

export function StateTimeline({ run }: { run: Run }) {
  const events = useEvents(run.id);
  const now = useNow(run.active);
  return (
    <Card title="Timeline">
      {events.data ? (
        <ol className={classes.timeline}>
          {events.data.map((event, index) => (
            <Step
              key={event.id}
              event={event}
              duration={describeDuration(run, event, events.data[index + 1], now)}
              isLast={index === events.data.length - 1}
            />
          ))}
        </ol>
      ) : events.error ? (
        <ProblemAlert error={events.error} onRetry={() => void events.refetch()} />
      ) : (
        <Loading />
      )}
    </Card>
  );
}

/** Describes how long a state has lasted. Final states have no duration. */
function describeDuration(run: Run, event: RunEvent, next: RunEvent | undefined, now: number): string | null {
  if (next) return `for ${showSpan(event.at, next.at, now)}`;
  return run.active ? `for ${showSpan(event.at, null, now)} so far` : null;
}

interface StepProps {
  event: RunEvent;
  duration: string | null;
  isLast: boolean;
}

function Step({ event, duration, isLast }: StepProps) {
  const { label, color } = showState(event.state);
  const Icon = ICONS[event.state] ?? IconHourglass;
  const hasReason = event.reason.toLowerCase() !== event.state;
  return (
    <li className={classes.step} aria-current={isLast ? "step" : undefined}>
      <ThemeIcon size={26} radius="xl" variant={isLast ? "filled" : "light"} color={color} aria-hidden>
        <Icon size={15} />
      </ThemeIcon>
      <div className={classes.what}>
        <Text size="sm" component="div">
          <b>{label}</b>
          {hasReason && ` · ${event.reason}`}
        </Text>
        <Text size="sm" c="dimmed">
          {sentence(event.message)}
        </Text>
      </div>
      <Text size="sm" c="dimmed" component="div" className={`${classes.when} number`}>
        <time dateTime={event.at} title={showMoment(event.at)}>
          {showClock(event.at)}
        </time>
        {duration && <div>{duration}</div>}
      </Text>
    </li>
  );
}

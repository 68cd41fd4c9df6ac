/** Subtitle of a run: message, function, project, compute resource, creator and duration. */
import { Anchor, Text } from "@mantine/core";
import { Link } from "wouter";
import type { Run } from "../../../api/runs";
import { splitScope } from "../../../api/scopes";
import { showSpan } from "../../../format/durations";
import { showType } from "../../../format/runs";
import { sentence } from "../../../format/sentences";
import { Time } from "../../../format/Time";
import { useNow } from "../../../format/useNow";
import { functionAddress } from "../../../shell/addresses";

export function About({ run }: { run: Run }) {
  const project = splitScope(run.scope).name;
  return (
    <>
      {!isRedundant(run) && run.message && (
        <Text size="sm" c="var(--mantine-color-text)" lineClamp={3} style={{ overflowWrap: "anywhere" }}>
          {sentence(run.message)}
        </Text>
      )}
      {showType(run.action)} of{" "}
      <Anchor component={Link} underline="always" href={functionAddress(project, run.function)} fz="sm">
        {run.function}
      </Anchor>{" "}
      in{" "}
      <Anchor
        component={Link}
        underline="always"
        href={`/runs?scope=${encodeURIComponent(run.scope)}`}
        fz="sm"
      >
        {project}
      </Anchor>
      {run.compute_resource && (
        <>
          {" on "}
          <Anchor
            underline="always"
            component={Link}
            href={`/compute-resources/${encodeURIComponent(run.compute_resource)}`}
            fz="sm"
          >
            {run.compute_resource}
          </Anchor>
        </>
      )}
      {" · "}submitted by {run.created_by} <Time at={run.created_at} />
      {" · "}
      <Elapsed run={run} />
    </>
  );
}

/** Whether the message only repeats the state. */
function isRedundant(run: Run): boolean {
  return ["Running", "Completed"].includes(run.reason);
}

/** How long the run has been running or waiting. */
function Elapsed({ run }: { run: Run }) {
  const now = useNow(run.active);
  if (run.started_at) {
    const took = showSpan(run.started_at, run.finished_at, now);
    return <span className="number">{run.active ? `running for ${took}` : `took ${took}`}</span>;
  }
  const waited = showSpan(run.created_at, run.finished_at, now);
  return <span className="number">{run.active ? `waiting for ${waited}` : "never started"}</span>;
}

/** Where a run is, whose it is, and how long it takes. */
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
      {!isPlain(run) && run.message && (
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
      <Took run={run} />
    </>
  );
}

/** Whether its state says it all. */
function isPlain(run: Run): boolean {
  return ["Running", "Completed"].includes(run.reason);
}

/** How long it runs, or waits. */
function Took({ run }: { run: Run }) {
  const now = useNow(run.live);
  if (run.started_at) {
    const took = showSpan(run.started_at, run.finished_at, now);
    return <span className="number">{run.live ? `running for ${took}` : `took ${took}`}</span>;
  }
  const waited = showSpan(run.created_at, run.finished_at, now);
  return <span className="number">{run.live ? `waiting for ${waited}` : "never started"}</span>;
}

/** Why a run failed: reason, memory usage if it ran out of memory, traceback and last log lines. */
import { Anchor, Button, Code, Group, Stack, Text } from "@mantine/core";
import { IconPlus } from "@tabler/icons-react";
import { Link } from "wouter";
import { useMay } from "../../../../api/currentUser";
import { type Run, usePlanOf } from "../../../../api/runs";
import { sentence } from "../../../../format/sentences";
import { showByteQuantity } from "../../../../forms/quantities";
import { useMoreMemory } from "../../../../runs/amounts";
import { newRunAddress, runAddress } from "../../../../shell/addresses";
import { CopyButton } from "../../../../shell/CopyButton";
import { Card } from "../../../../shell/Page";
import { ProblemAlert } from "../../../../shell/Problem";
import { useTail } from "../logs/tail";
import { useOutcome } from "../requests";
import { boundsOf } from "../usage/bounds";
import { describePeak } from "../usage/measures";
import classes from "./Overview.module.css";

export function FailureCard({ run }: { run: Run }) {
  const outcome = useOutcome(run);
  const error = outcome.data?.error;
  return (
    <Card title="Why it failed">
      <Text size="sm" className={classes.failure}>
        <b>{run.reason}</b>: {sentence(run.message)}
        {run.exit_code !== null && ` Exit code: ${run.exit_code}.`}
      </Text>
      {!outcome.data && <ProblemAlert error={outcome.error} onRetry={() => void outcome.refetch()} />}
      {run.reason === "OOMKilled" && <OutOfMemory run={run} peak={outcome.data?.usage.mem} />}
      {error && <Traceback error={error} />}
      <Tail run={run} />
    </Card>
  );
}

function OutOfMemory({ run, peak }: { run: Run; peak: number | undefined }) {
  const may = useMay();
  const plan = usePlanOf(run.id);
  const mem = useMoreMemory(run);
  return (
    <Stack gap="xs" align="flex-start">
      {peak !== undefined && plan.data && (
        <Text size="sm" className="number">
          {describePeak("mem", peak, boundsOf(plan.data.settings, "mem"))}
        </Text>
      )}
      {mem && may("member", run.scope) && (
        <Button
          component={Link}
          href={newRunAddress({ from: run.id, mem })}
          size="xs"
          leftSection={<IconPlus size={15} />}
        >
          Retry with {showByteQuantity(mem)}
        </Button>
      )}
    </Stack>
  );
}

function Traceback({ error }: { error: { type?: string; message?: string; traceback?: string } }) {
  const text = error.traceback || `${error.type}: ${error.message}`;
  return (
    <Stack gap={6}>
      <Group justify="space-between">
        <Text size="sm" fw={550}>
          {error.traceback ? "Traceback" : "Error"}
        </Text>
        <CopyButton text={text} />
      </Group>
      <Code block className={classes.text} tabIndex={0} role="region" aria-label="Traceback">
        {text}
      </Code>
    </Stack>
  );
}

function Tail({ run }: { run: Run }) {
  const tail = useTail(run);
  return (
    <Stack gap={6}>
      <Group justify="space-between">
        <Text size="sm" fw={550}>
          {tail.data?.length ? "Last log lines" : "Log"}
        </Text>
        <Anchor component={Link} href={`${runAddress(run.id)}/logs`} fz="sm">
          Full log
        </Anchor>
      </Group>
      {tail.data === undefined && <ProblemAlert error={tail.error} onRetry={() => void tail.refetch()} />}
      {tail.data && tail.data.length > 0 && (
        <Code block className={classes.text} tabIndex={0} role="region" aria-label="Last log lines">
          {tail.data.join("\n")}
        </Code>
      )}
      {tail.data?.length === 0 && (
        <Text size="sm" c="dimmed">
          No output.
        </Text>
      )}
      {tail.data === null && (
        <Text size="sm" c="dimmed">
          The log is too long to show here. Open the full log.
        </Text>
      )}
    </Stack>
  );
}

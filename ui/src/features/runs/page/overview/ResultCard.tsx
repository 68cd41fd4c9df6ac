/** The result of a run. If `isOptional`, the card is hidden when the run has no result. */
import { Anchor, Code, Text } from "@mantine/core";
import type { Run } from "../../../../api/runs";
import { showBytes } from "../../../../format/amounts";
import { CopyButton } from "../../../../shell/CopyButton";
import { Card } from "../../../../shell/Page";
import { ProblemAlert } from "../../../../shell/Problem";
import { downloadAddress, type Result, useOutcome } from "../requests";
import classes from "./Overview.module.css";

export function ResultCard({ run, isOptional }: { run: Run; isOptional?: boolean }) {
  const outcome = useOutcome(run);
  if (run.state !== "completed") return null;
  if (!outcome.data) {
    return outcome.error ? (
      <Card title="Result">
        <ProblemAlert error={outcome.error} onRetry={() => void outcome.refetch()} />
      </Card>
    ) : null;
  }
  const { result } = outcome.data;
  if (!result && isOptional) return null;
  const text = result?.kind === "json" ? JSON.stringify(result.value, null, 2) : null;
  return (
    <Card title="Result" actions={text !== null && <CopyButton text={text} />}>
      <ResultView run={run} result={result} text={text} />
    </Card>
  );
}

function ResultView({ run, result, text }: { run: Run; result: Result | null; text: string | null }) {
  if (text !== null) {
    return (
      <Code block className={classes.text} tabIndex={0} role="region" aria-label="Return value">
        {text}
      </Code>
    );
  }
  if (result?.kind === "file") {
    return (
      <Text size="sm">
        Saved as{" "}
        <Anchor
          underline="always"
          fz="sm"
          ff="monospace"
          href={downloadAddress(run.id, `files/${result.path}`)}
          download
        >
          {result.path}
        </Anchor>
        ({showBytes(result.size)})
      </Text>
    );
  }
  return (
    <Text size="sm" c="dimmed">
      No return value.
    </Text>
  );
}

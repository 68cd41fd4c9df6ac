/** Why a run is currently waiting, with suggestions for starting it. */
import { Anchor, List, Stack, Text } from "@mantine/core";
import { Fragment } from "react";
import { Link } from "wouter";
import type { Schemas } from "../../../../api/client";
import { useMay } from "../../../../api/currentUser";
import type { Suggestion } from "../../../../api/plans";
import { type Run, useApplySuggestion } from "../../../../api/runs";
import { shortName } from "../../../../format/runs";
import { sentence } from "../../../../format/sentences";
import { FitCard } from "../../../../plans/FitCard";
import { runAddress } from "../../../../shell/addresses";
import { notify } from "../../../../shell/notices";
import { Card } from "../../../../shell/Page";
import { ProblemAlert } from "../../../../shell/Problem";
import { useNavigate } from "../../../../shell/useNavigate";
import { useWhy } from "../requests";

/**
 * Applies suggestions. Call this hook in a component that stays mounted, because the run can leave the waiting states
 * before the response arrives.
 */
export function useSuggestions(run: Run) {
  const change = useApplySuggestion(run.id);
  const may = useMay();
  const navigate = useNavigate();
  const apply = (suggestion: Suggestion) =>
    change.mutate(suggestion, {
      onSuccess: (replacement) => {
        notify(`Replaced by ${shortName(replacement)}`);
        navigate(runAddress(replacement.id));
      },
    });
  return {
    apply: may("member", run.scope) ? apply : undefined,
    isApplying: change.isPending,
    error: change.error,
  };
}

interface Props {
  run: Run;
  suggestions: ReturnType<typeof useSuggestions>;
}

export function WaitingCards({ run, suggestions }: Props) {
  const why = useWhy(run.id);
  if (!why.data) return <ProblemAlert error={why.error} onRetry={() => void why.refetch()} />;
  const { message, details, fit } = why.data;
  // The fit card already shows this message.
  const isInFitCard = fit.reasons.join("; ") === message;
  return (
    <Stack gap="md">
      <Card title="Why it's waiting">
        <Text size="sm" style={{ overflowWrap: "anywhere" }}>
          {sentence(isInFitCard ? run.message : message)} <Ahead why={why.data} />
        </Text>
        {details.length > 0 && (
          <List size="sm" spacing={4}>
            {details.map((detail) => (
              <List.Item key={detail} style={{ overflowWrap: "anywhere" }}>
                {sentence(detail)}
              </List.Item>
            ))}
          </List>
        )}
      </Card>
      <ProblemAlert error={suggestions.error} />
      {fit.reasons.length + fit.suggestions.length > 0 && (
        <FitCard fit={fit} isApplying={suggestions.isApplying} onApply={suggestions.apply} />
      )}
    </Stack>
  );
}

/** The number of runs ahead in the queue, with links to the first ones that the user may see. */
function Ahead({ why }: { why: Schemas["RunExplanation"] }) {
  const { ahead, ahead_runs: visible } = why;
  if (ahead === 0) return "Next in the queue.";
  const number = `${ahead.toLocaleString("en")} ${ahead === 1 ? "run" : "runs"} ahead in the queue`;
  if (visible.length === 0) return `${number}.`;
  return (
    <>
      {number}:{" "}
      {visible.map((other, index) => (
        <Fragment key={other.id}>
          {index > 0 && ", "}
          <Anchor component={Link} href={runAddress(other.id)} size="sm" underline="always">
            {other.name}
          </Anchor>
        </Fragment>
      ))}
      {ahead > visible.length && ` and ${(ahead - visible.length).toLocaleString("en")} more`}.
    </>
  );
}

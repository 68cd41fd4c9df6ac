/** Why a run waits, with the numbers of this moment, and what would let it run. */
import { List, Stack, Text } from "@mantine/core";
import { useMay } from "../../../../api/currentUser";
import type { Suggestion } from "../../../../api/plans";
import { type Run, useTakeSuggestion } from "../../../../api/runs";
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
 * What a suggestion does once it is taken. It is kept by a part of the page that stays: the run may be told to be stopped
 * before the answer comes, and waits no more.
 */
export function useSuggestions(run: Run) {
  const change = useTakeSuggestion(run.id);
  const may = useMay();
  const navigate = useNavigate();
  const take = (way: Suggestion) =>
    change.mutate(way, {
      onSuccess: (made) => {
        notify(`${shortName(made)} takes its place`);
        navigate(runAddress(made.id));
      },
    });
  return {
    take: may("member", run.scope) ? take : undefined,
    isTaking: change.isPending,
    error: change.error,
  };
}

export function WhyItWaits({ run, ways }: { run: Run; ways: ReturnType<typeof useSuggestions> }) {
  const why = useWhy(run.id);
  if (!why.data) return <ProblemAlert error={why.error} onRetry={() => void why.refetch()} />;
  const { message, details, ahead, fit } = why.data;
  // What the fit says itself need not be said before it.
  const isToldByFit = fit.reasons.join("; ") === message;
  return (
    <Stack gap="md">
      <Card title="Why it waits">
        <Text size="sm" style={{ overflowWrap: "anywhere" }}>
          {sentence(isToldByFit ? run.message : message)} {tellAhead(ahead)}
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
      <ProblemAlert error={ways.error} />
      {fit.reasons.length + fit.suggestions.length > 0 && (
        <FitCard fit={fit} isTaking={ways.isTaking} onTake={ways.take} />
      )}
    </Stack>
  );
}

function tellAhead(ahead: number): string {
  if (ahead === 0) return "It is the next in line.";
  return ahead === 1 ? "One run is ahead of it." : `${ahead.toLocaleString("en")} runs are ahead of it.`;
}

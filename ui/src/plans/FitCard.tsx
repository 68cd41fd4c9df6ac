/** Shows whether a run starts now, waits or cannot run, with the reasons and suggestions. */
import { Anchor, Button, Group, List, Stack, Text, ThemeIcon, Title } from "@mantine/core";
import { IconAlertTriangle, IconCheck, IconClock, IconQuestionMark } from "@tabler/icons-react";
import { Link } from "wouter";
import type { Fit, Suggestion, Verdict } from "../api/plans";
import { sentence } from "../format/sentences";
import { runAddress } from "../shell/addresses";
import { Card } from "../shell/Page";
import { Collapsible } from "./Collapsible";
import classes from "./FitCard.module.css";

const VERDICTS: Record<Verdict, { title: string; color: string; icon: typeof IconCheck }> = {
  now: { title: "Starts now", color: "teal", icon: IconCheck },
  later: { title: "Will wait", color: "orange", icon: IconClock },
  never: { title: "Can't run here", color: "red", icon: IconAlertTriangle },
  unknown: { title: "Unknown", color: "gray", icon: IconQuestionMark },
};

/** Returns the title, color and icon of a verdict. */
export function showVerdict(fit: Fit) {
  return VERDICTS[fit.verdict as Verdict] ?? VERDICTS.unknown;
}

interface Props {
  fit: Fit;
  /** Applies a suggestion. If missing, suggestions have no button. */
  onApply?: (suggestion: Suggestion) => void;
  isApplying?: boolean;
  /** Whether the verdict may be outdated. */
  isStale?: boolean;
  /** A sentence below the reasons, such as "This run would be rejected." */
  note?: string;
}

export function FitCard({ fit, onApply, isApplying, isStale, note }: Props) {
  const verdict = showVerdict(fit);
  return (
    <Card aria-busy={isStale} isStale={isStale} role="region" aria-label="Fit">
      <Group gap="xs" wrap="nowrap">
        <ThemeIcon size={24} radius="xl" variant="light" color={verdict.color} aria-hidden>
          <verdict.icon size={15} />
        </ThemeIcon>
        <div role="status">
          <Title order={2}>{verdict.title}</Title>
        </div>
      </Group>
      {fit.reasons.map((reason) => (
        <Text key={reason} size="sm" className={classes.reason}>
          {sentence(reason)}
        </Text>
      ))}
      {fit.verdict === "unknown" && fit.reasons.length === 0 && (
        <Text size="sm" c="dimmed">
          We can't check capacity: the request is invalid or the cluster is unreachable.
        </Text>
      )}
      {note && (
        <Text size="sm" fw={550}>
          {note}
        </Text>
      )}
      <Suggestions suggestions={fit.suggestions} onApply={onApply} isApplying={isApplying} />
      <Nodes fit={fit} />
    </Card>
  );
}

function Suggestions({
  suggestions,
  onApply,
  isApplying,
}: Pick<Props, "onApply" | "isApplying"> & { suggestions: Suggestion[] }) {
  if (suggestions.length === 0) return null;
  return (
    <Stack gap={6} role="group" aria-label="Suggestions">
      <Text size="sm" fw={620}>
        Suggestions
      </Text>
      <ul className={classes.suggestions}>
        {suggestions.map((suggestion) => (
          <li key={suggestion.message}>
            <Text size="sm">{sentence(suggestion.message)}</Text>
            {suggestion.run_id && (
              <Anchor component={Link} href={runAddress(suggestion.run_id)} size="sm" underline="always">
                View run
              </Anchor>
            )}
            {onApply && suggestion.kind !== "wait" && (
              <Button
                size="compact-xs"
                variant="light"
                disabled={isApplying}
                aria-label={`Apply: ${suggestion.message}`}
                onClick={() => onApply(suggestion)}
              >
                Apply
              </Button>
            )}
          </li>
        ))}
      </ul>
    </Stack>
  );
}

interface Node {
  name: string;
  fits: boolean;
  reasons: string[];
}

function Nodes({ fit }: { fit: Fit }) {
  const { now = 0, later = 0, never = 0 } = fit.counts;
  const total = now + later + never;
  if (total === 0) return null;
  const nodes = (fit.nodes as Node[]).filter((node) => node.reasons.length > 0);
  return (
    <Collapsible title={total === 1 ? "Node details" : `${total} nodes`}>
      <Stack gap={6}>
        <Text size="sm" className="number">
          {now} can start this run now, {later} later, {never} never.
        </Text>
        <List size="sm" spacing={4} className={classes.reason}>
          {nodes.map((node) => (
            <List.Item key={node.name}>
              <b>{node.name}</b>: {node.reasons.join("; ")}
            </List.Item>
          ))}
        </List>
      </Stack>
    </Collapsible>
  );
}

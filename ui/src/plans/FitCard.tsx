/** Whether it would run now, later or never: why not, and what would help. */
import { Anchor, Button, Group, List, Stack, Text, ThemeIcon, Title } from "@mantine/core";
import { IconAlertTriangle, IconCheck, IconClock, IconQuestionMark } from "@tabler/icons-react";
import { Link } from "wouter";
import type { Fit, Verdict, WayOut } from "../api/plans";
import { sentence } from "../format/sentences";
import { runAddress } from "../shell/addresses";
import { Card } from "../shell/Page";
import classes from "./FitCard.module.css";
import { Folded } from "./Folded";

const LOOKS: Record<Verdict, { title: string; color: string; icon: typeof IconCheck }> = {
  now: { title: "Fits now", color: "teal", icon: IconCheck },
  later: { title: "Fits later", color: "orange", icon: IconClock },
  never: { title: "Never fits", color: "red", icon: IconAlertTriangle },
  unknown: { title: "Cannot be told", color: "gray", icon: IconQuestionMark },
};

/** How a verdict is called, and its colour. */
export function lookOf(fit: Fit) {
  return LOOKS[fit.verdict as Verdict] ?? LOOKS.unknown;
}

interface Props {
  fit: Fit;
  /** Takes a way out; left out, they are only told. */
  onTake?: (way: WayOut) => void;
  isTaking?: boolean;
  /** Whether it may be old by now. */
  isStale?: boolean;
  /** What follows from it. */
  note?: string;
}

export function FitCard({ fit, onTake, isTaking, isStale, note }: Props) {
  const look = lookOf(fit);
  return (
    <Card aria-busy={isStale} isStale={isStale} role="region" aria-label="Fit">
      <Group gap="xs" wrap="nowrap">
        <ThemeIcon size={24} radius="xl" variant="light" color={look.color} aria-hidden>
          <look.icon size={15} />
        </ThemeIcon>
        <div role="status">
          <Title order={2}>{look.title}</Title>
        </div>
      </Group>
      {fit.reasons.map((reason) => (
        <Text key={reason} size="sm" className={classes.reason}>
          {sentence(reason)}
        </Text>
      ))}
      {fit.verdict === "unknown" && fit.reasons.length === 0 && (
        <Text size="sm" c="dimmed">
          It is refused before it comes to nodes, or nobody sees them now.
        </Text>
      )}
      {note && (
        <Text size="sm" fw={550}>
          {note}
        </Text>
      )}
      <WaysOut ways={fit.ways_out} onTake={onTake} isTaking={isTaking} />
      <Nodes fit={fit} />
    </Card>
  );
}

function WaysOut({ ways, onTake, isTaking }: Pick<Props, "onTake" | "isTaking"> & { ways: WayOut[] }) {
  if (ways.length === 0) return null;
  return (
    <Stack gap={6} role="group" aria-label="Ways out">
      <Text size="sm" fw={620}>
        {ways.length === 1 ? "A way out" : "Ways out"}
      </Text>
      <ul className={classes.ways}>
        {ways.map((way) => (
          <li key={way.message}>
            <Text size="sm">{sentence(way.message)}</Text>
            {way.run_id && (
              <Anchor component={Link} href={runAddress(way.run_id)} size="sm" underline="always">
                See it
              </Anchor>
            )}
            {onTake && way.kind !== "wait" && (
              <Button
                size="compact-xs"
                variant="light"
                disabled={isTaking}
                aria-label={`Apply: ${way.message}`}
                onClick={() => onTake(way)}
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
  const all = now + later + never;
  if (all === 0) return null;
  const nodes = (fit.nodes as Node[]).filter((node) => node.reasons.length > 0);
  return (
    <Folded title={all === 1 ? "The one node" : `${all} nodes`}>
      <Stack gap={6}>
        <Text size="sm" className="number">
          {now} {now === 1 ? "takes" : "take"} it now, {later} could later, {never} never.
        </Text>
        <List size="sm" spacing={4} className={classes.reason}>
          {nodes.map((node) => (
            <List.Item key={node.name}>
              <b>{node.name}</b>: {node.reasons.join("; ")}
            </List.Item>
          ))}
        </List>
      </Stack>
    </Folded>
  );
}

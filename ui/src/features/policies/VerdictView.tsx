/** What a draft would refuse of what is kept: live, while somebody types. */
import { Anchor, Badge, Button, Group, Stack, Text } from "@mantine/core";
import { useState } from "react";
import { Link } from "wouter";
import type { Schemas } from "../../api/client";
import { type Finding, isProblem } from "../../api/problems";
import { Card } from "../../shell/Page";
import { FindingList, ProblemAlert } from "../../shell/Problem";
import classes from "./Policy.module.css";
import type { Verdict } from "./requests";

type Refused = Schemas["Refused"];

const FEW = 6;
const PAGES: Record<string, string> = { "compute resource": "/compute-resources", template: "/templates" };

interface Props {
  verdict: Verdict | undefined;
  /** What is wrong with the draft itself. */
  mistakes: Finding[];
  error: unknown;
  isCurrent: boolean;
}

export function VerdictView({ verdict, mistakes, error, isCurrent }: Props) {
  const isBroken = mistakes.length > 0;
  const isTold = !isBroken && !error;
  return (
    <Card
      id="verdict"
      title="What this draft would refuse"
      aria-busy={!isCurrent}
      isStale={isTold && !!verdict && !isCurrent}
    >
      {isBroken && (
        <div role="status">
          <Text size="sm" mb={6}>
            Mend what is wrong with the draft to see it.
          </Text>
          <FindingList findings={mistakes} />
        </div>
      )}
      {!isBroken && <ProblemAlert error={error} />}
      {isTold && verdict && <Told verdict={verdict} />}
      {isTold && !verdict && (
        <Text size="sm" c="dimmed">
          Looking…
        </Text>
      )}
    </Card>
  );
}

function Told({ verdict }: { verdict: Verdict }) {
  const [isOldShown, setOldShown] = useState(false);
  const old = verdict.refused.filter((one) => one.already);
  return (
    <Stack gap="xs">
      <Text size="sm" role="status">
        {summarise(verdict)}
      </Text>
      <RefusedList label="Would be refused" items={verdict.refused.filter((one) => !one.already)} />
      {old.length > 0 && (
        <Button
          size="compact-xs"
          variant="subtle"
          aria-expanded={isOldShown}
          onClick={() => setOldShown(!isOldShown)}
          style={{ alignSelf: "flex-start" }}
        >
          {isOldShown ? "Hide" : "Show"} what is refused already
        </Button>
      )}
      {isOldShown && <RefusedList label="Refused already" items={old} />}
      <Text size="xs" c="dimmed" className="number">
        {countChecked(verdict)}
      </Text>
    </Stack>
  );
}

function RefusedList({ label, items }: { label: string; items: Refused[] }) {
  const [isWhole, setWhole] = useState(false);
  const shown = isWhole ? items : items.slice(0, FEW);
  if (items.length === 0) return null;
  return (
    <div>
      <ul className={classes.plain} aria-label={label}>
        {shown.map((one) => (
          <li key={`${one.kind} ${one.name}`} className={classes.refused}>
            <Item one={one} />
          </li>
        ))}
      </ul>
      {shown.length < items.length && (
        <Button size="compact-xs" variant="subtle" onClick={() => setWhole(true)}>
          Show all {items.length}
        </Button>
      )}
    </div>
  );
}

function Item({ one }: { one: Refused }) {
  const page = PAGES[one.kind];
  return (
    <>
      <Group gap={6} justify="space-between" wrap="nowrap" align="flex-start">
        <Text size="sm">
          {page ? (
            <Anchor component={Link} href={`${page}/${encodeURIComponent(one.name)}`} fz="inherit" fw={550}>
              {one.name}
            </Anchor>
          ) : (
            <Text span ff="monospace" fz="xs">
              {one.name.slice(-12)}
            </Text>
          )}
          <Text span size="xs" c="dimmed">
            {" "}
            {one.kind} of {one.scope}
          </Text>
        </Text>
        <Badge size="sm" variant={one.already ? "default" : "light"} color="red" style={{ flexShrink: 0 }}>
          {one.already ? "already" : "new"}
        </Badge>
      </Group>
      {one.violations.map((found) => (
        <Text key={`${found.path} ${found.message}`} size="xs" mt={2}>
          <Text span ff="monospace" fz="xs">
            {found.path}
          </Text>{" "}
          {found.message}
        </Text>
      ))}
    </>
  );
}

/** "3 more would be refused, 1 is refused already." */
export function summarise(verdict: Verdict): string {
  const old = verdict.refused.filter((one) => one.already).length;
  const fresh = verdict.refused.length - old;
  const refused = old > 0 ? `${old} ${old === 1 ? "is" : "are"} refused already` : "";
  if (fresh > 0)
    return refused ? `${fresh} more would be refused, ${refused}.` : `${fresh} would be refused.`;
  return refused ? `Nothing more would be refused; ${refused}.` : "Nothing would be refused.";
}

function countChecked({ checked, left_out }: Verdict): string {
  const told = Object.entries(checked).map(([kind, count]) => {
    const noun = kind === "run" ? "recent run" : kind;
    const rest = left_out[kind] ?? 0;
    return `${count} ${noun}${count === 1 ? "" : "s"}${rest > 0 ? ` (${rest} more left out)` : ""}`;
  });
  return `Checked ${told.slice(0, -1).join(", ")} and ${told.at(-1)}.`;
}

/** What is wrong with a draft is told at its fields; only other failures are shown as such. */
export function otherThanMistakes(error: unknown): unknown {
  return isProblem(error, "rejected") ? null : error;
}

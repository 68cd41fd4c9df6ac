/** Live preview of the existing objects that a draft policy would reject. */
import { Anchor, Badge, Button, Group, Stack, Text } from "@mantine/core";
import { useState } from "react";
import { Link } from "wouter";
import type { Schemas } from "../../api/client";
import { type Finding, isProblem } from "../../api/problems";
import { Card } from "../../shell/Page";
import { FindingList, ProblemAlert } from "../../shell/Problem";
import classes from "./Policy.module.css";
import type { PolicyImpact } from "./requests";

type RejectedItem = Schemas["RejectedItem"];

const INITIALLY_SHOWN = 6;
const PAGES: Record<string, string> = { "compute resource": "/compute-resources", template: "/templates" };

interface Props {
  impact: PolicyImpact | undefined;
  /** Errors in the draft. */
  errors: Finding[];
  error: unknown;
  isCurrent: boolean;
}

export function ImpactCard({ impact, errors, error, isCurrent }: Props) {
  const isInvalid = errors.length > 0;
  const hasResult = !isInvalid && !error;
  return (
    <Card id="impact" title="Impact" aria-busy={!isCurrent} isStale={hasResult && !!impact && !isCurrent}>
      {isInvalid && (
        <div role="status">
          <Text size="sm" mb={6}>
            Fix the errors to see the impact.
          </Text>
          <FindingList findings={errors} />
        </div>
      )}
      {!isInvalid && <ProblemAlert error={error} />}
      {hasResult && impact && <ImpactDetails impact={impact} />}
      {hasResult && !impact && (
        <Text size="sm" c="dimmed">
          Checking…
        </Text>
      )}
    </Card>
  );
}

function ImpactDetails({ impact }: { impact: PolicyImpact }) {
  const [isExpanded, setExpanded] = useState(false);
  const existing = impact.rejected.filter((item) => item.already);
  return (
    <Stack gap="xs">
      <Text size="sm" role="status">
        {summarizeImpact(impact)}
      </Text>
      <RejectedList label="New rejections" items={impact.rejected.filter((item) => !item.already)} />
      {existing.length > 0 && (
        <Button
          size="compact-xs"
          variant="subtle"
          aria-expanded={isExpanded}
          onClick={() => setExpanded(!isExpanded)}
          style={{ alignSelf: "flex-start" }}
        >
          {isExpanded ? "Hide" : "Show"} existing violations
        </Button>
      )}
      {isExpanded && <RejectedList label="Existing violations" items={existing} />}
      <Text size="xs" c="dimmed" className="number">
        {countChecked(impact)}
      </Text>
    </Stack>
  );
}

function RejectedList({ label, items }: { label: string; items: RejectedItem[] }) {
  const [showsAll, setShowsAll] = useState(false);
  const shown = showsAll ? items : items.slice(0, INITIALLY_SHOWN);
  if (items.length === 0) return null;
  return (
    <div>
      <ul className={classes.plain} aria-label={label}>
        {shown.map((item) => (
          <li key={`${item.kind} ${item.name}`} className={classes.violation}>
            <Item item={item} />
          </li>
        ))}
      </ul>
      {shown.length < items.length && (
        <Button size="compact-xs" variant="subtle" onClick={() => setShowsAll(true)}>
          Show all {items.length}
        </Button>
      )}
    </div>
  );
}

function Item({ item }: { item: RejectedItem }) {
  const page = PAGES[item.kind];
  return (
    <>
      <Group gap={6} justify="space-between" wrap="nowrap" align="flex-start">
        <Text size="sm">
          {page ? (
            <Anchor component={Link} href={`${page}/${encodeURIComponent(item.name)}`} fz="inherit" fw={550}>
              {item.name}
            </Anchor>
          ) : (
            <Text span ff="monospace" fz="xs">
              {item.name.slice(-12)}
            </Text>
          )}
          <Text span size="xs" c="dimmed">
            {" "}
            {item.kind} in {item.scope}
          </Text>
        </Text>
        <Badge size="sm" variant={item.already ? "default" : "light"} color="red" style={{ flexShrink: 0 }}>
          {item.already ? "existing" : "new"}
        </Badge>
      </Group>
      {item.violations.map((violation) => (
        <Text key={`${violation.path} ${violation.message}`} size="xs" mt={2}>
          <Text span ff="monospace" fz="xs">
            {violation.path}
          </Text>{" "}
          {violation.message}
        </Text>
      ))}
    </>
  );
}

/** "3 new rejections. 1 existing item already violates the policy." */
export function summarizeImpact(impact: PolicyImpact): string {
  const existing = impact.rejected.filter((item) => item.already).length;
  const added = impact.rejected.length - existing;
  const rejections =
    added === 0 ? "No new rejections." : `${added} new ${added === 1 ? "rejection" : "rejections"}.`;
  if (existing === 0) return rejections;
  return `${rejections} ${existing} existing ${existing === 1 ? "item already violates" : "items already violate"} the policy.`;
}

function countChecked({ checked, skipped }: PolicyImpact): string {
  const counts = Object.entries(checked).map(([kind, count]) => {
    const noun = kind === "run" ? "recent run" : kind;
    const rest = skipped[kind] ?? 0;
    return `${count} ${noun}${count === 1 ? "" : "s"}${rest > 0 ? ` (${rest} more not checked)` : ""}`;
  });
  return `Checked ${counts.slice(0, -1).join(", ")} and ${counts.at(-1)}.`;
}

/** Drops the error for an invalid draft, because the fields show its violations. */
export function withoutViolations(error: unknown): unknown {
  return isProblem(error, "rejected") ? null : error;
}

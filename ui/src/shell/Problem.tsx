/** Shows a problem reported by the server: message, hint, violations and the objects that block the request. */
import { Alert, Anchor, Button, Group, List, Stack, Text } from "@mantine/core";
import { IconAlertTriangle } from "@tabler/icons-react";
import { Link } from "wouter";
import type { Schemas } from "../api/client";
import { type Finding, isProblem, violationsOf } from "../api/problems";
import { sentence } from "../format/sentences";
import classes from "./Problem.module.css";

interface Props {
  error: unknown;
  onRetry?: () => void;
  title?: string;
}

export function ProblemAlert({ error, onRetry, title }: Props) {
  if (!error) return null;
  const problem = isProblem(error) ? error.problem : null;
  const message = problem?.detail ?? (error as Error).message;
  return (
    <Alert
      className={classes.problem}
      color="red"
      role="alert"
      icon={<IconAlertTriangle size={18} />}
      title={title ?? sentence(message)}
    >
      <Stack gap={6}>
        {title && <Text size="sm">{sentence(message)}</Text>}
        {problem?.hint && <Text size="sm">{sentence(problem.hint)}</Text>}
        <FindingList findings={violationsOf(error)} />
        {problem?.used_by && problem.used_by.length > 0 && <UsedBy users={problem.used_by} />}
        {onRetry && (
          <Group>
            <Button size="xs" variant="default" onClick={onRetry}>
              Try again
            </Button>
          </Group>
        )}
      </Stack>
    </Alert>
  );
}

interface PageProps extends Props {
  /** A link to a page that the user can open instead. */
  link?: { title: string; href: string };
}

/** Shown instead of a page that failed to load. */
export function ProblemPage({ link, ...problem }: PageProps) {
  return (
    <Stack p="xl">
      <ProblemAlert {...problem} />
      {link && (
        <Anchor component={Link} href={link.href}>
          {link.title}
        </Anchor>
      )}
    </Stack>
  );
}

export function FindingList({ findings }: { findings: Finding[] }) {
  if (findings.length === 0) return null;
  return (
    <List size="sm" spacing={4}>
      {findings.map((finding) => (
        <List.Item key={`${finding.path} ${finding.rule} ${finding.message}`}>
          <Text span ff="monospace" size="xs">
            {finding.path}
          </Text>{" "}
          {finding.message}
          {finding.hint && (
            <Text size="sm" c="dimmed">
              {sentence(finding.hint)}
            </Text>
          )}
        </List.Item>
      ))}
    </List>
  );
}

function UsedBy({ users }: { users: Schemas["UsedBy"][] }) {
  return (
    <List size="sm" aria-label="Used by" className={classes.users}>
      {users.map((user) => (
        <List.Item key={`${user.kind} ${user.name}`}>
          {user.kind} <b>{user.name}</b>
          {user.scope && (
            <Text span size="sm" c="dimmed">
              {" "}
              in {user.scope}
            </Text>
          )}
        </List.Item>
      ))}
    </List>
  );
}

/** What went wrong, in the server's words: the sentence, the way out, all violations, and what is in the way. */
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
  /** Where to go from here. */
  way?: { title: string; href: string };
}

/** In place of a page that cannot be shown. */
export function ProblemPage({ way, ...problem }: PageProps) {
  return (
    <Stack p="xl">
      <ProblemAlert {...problem} />
      {way && (
        <Anchor component={Link} href={way.href}>
          {way.title}
        </Anchor>
      )}
    </Stack>
  );
}

export function FindingList({ findings }: { findings: Finding[] }) {
  if (findings.length === 0) return null;
  return (
    <List size="sm" spacing={4}>
      {findings.map((found) => (
        <List.Item key={`${found.path} ${found.rule} ${found.message}`}>
          <Text span ff="monospace" size="xs">
            {found.path}
          </Text>{" "}
          {found.message}
          {found.hint && (
            <Text size="sm" c="dimmed">
              {sentence(found.hint)}
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
              of {user.scope}
            </Text>
          )}
        </List.Item>
      ))}
    </List>
  );
}

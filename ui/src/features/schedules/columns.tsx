/** Columns of the schedules table. */
import { Anchor, Text } from "@mantine/core";
import { Link } from "wouter";
import { splitScope } from "../../api/scopes";
import { Time } from "../../format/Time";
import { RunLink } from "../../runs/RunLink";
import { ScopeLink } from "../../scopes/ScopeLink";
import { functionAddress } from "../../shell/addresses";
import { type Column, NONE } from "../../table/columns";
import { CREATED_AT, UPDATED_AT } from "../../table/stamps";
import type { Schedule } from "./requests";

export const COLUMNS: Column<Schedule>[] = [
  {
    key: "name",
    title: "Name",
    width: 170,
    kind: "text",
    render: (item) => (
      <Anchor
        component={Link}
        href={runsAddress(item)}
        fz="inherit"
        fw="inherit"
        title={`Runs of ${item.name}`}
      >
        {item.name}
      </Anchor>
    ),
  },
  {
    key: "function",
    title: "Function",
    width: 150,
    kind: "text",
    render: (item) => (
      <Anchor
        component={Link}
        href={functionAddress(splitScope(item.scope).name, item.function)}
        fz="inherit"
      >
        {item.function}
      </Anchor>
    ),
  },
  {
    key: "cron",
    title: "Schedule",
    width: 210,
    isUnsorted: true,
    render: (item) => (
      <Text span fz="inherit" title={`${item.cron} ${item.timezone}`}>
        <Text span ff="monospace" fz="xs">
          {item.cron}
        </Text>{" "}
        <Text span c="dimmed" fz="xs">
          {item.timezone}
        </Text>
      </Text>
    ),
  },
  {
    key: "next_at",
    title: "Next run",
    width: 125,
    kind: "time",
    render: (item) => (item.paused ? <Text c="dimmed">paused</Text> : <Time at={item.next_at} />),
  },
  {
    key: "last_at",
    title: "Last due",
    width: 125,
    kind: "time",
    render: (item) => <Time at={item.last_at} />,
  },
  {
    key: "last_run_id",
    title: "Last run",
    width: 220,
    isUnsorted: true,
    render: (item) => <LastRun item={item} />,
  },
  {
    key: "scope",
    title: "Project",
    width: 150,
    kind: "keyword",
    render: (item) => <ScopeLink scope={item.scope} />,
  },
  {
    key: "user",
    title: "Runs as",
    width: 150,
    isUnsorted: true,
    render: (item) => item.user,
  },
  CREATED_AT,
  { ...UPDATED_AT, isExtra: true },
];

/** The most recent run, or the reason it could not start. */
function LastRun({ item }: { item: Schedule }) {
  if (item.last_problem) {
    return (
      <Text span c="red" fz="inherit" title={item.last_problem}>
        {item.last_problem}
      </Text>
    );
  }
  return item.last_run_id ? <RunLink run={{ function: item.function, id: item.last_run_id }} /> : NONE;
}

export function runsAddress(item: Schedule): string {
  return `/runs?${new URLSearchParams({ schedule: item.name, scope: item.scope })}`;
}

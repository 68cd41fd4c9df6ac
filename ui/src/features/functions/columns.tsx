/** Columns of the functions table. */
import { Anchor, Text } from "@mantine/core";
import { Link } from "wouter";
import { splitScope } from "../../api/scopes";
import { Time } from "../../format/Time";
import { ScopeLink } from "../../scopes/ScopeLink";
import { functionAddress } from "../../shell/addresses";
import { type Column, NONE } from "../../table/columns";
import { CREATED_AT, CREATED_BY, REVISION, UPDATED_AT, UPDATED_BY } from "../../table/stamps";
import { showKind, summarize } from "./kinds";
import type { FunctionRecord } from "./requests";

export const COLUMNS: Column<FunctionRecord>[] = [
  {
    key: "name",
    title: "Function",
    width: 190,
    kind: "text",
    render: (item) => (
      <Anchor
        component={Link}
        href={functionAddress(splitScope(item.scope).name, item.name)}
        fz="inherit"
        fw="inherit"
      >
        {item.name}
      </Anchor>
    ),
  },
  {
    key: "kind",
    title: "Kind",
    width: 105,
    kind: "keyword",
    options: ["python", "container"],
    render: showKind,
  },
  {
    key: "content",
    title: "Definition",
    width: 270,
    isUnsorted: true,
    render: (item) => (
      <Text span ff="monospace" fz="xs" title={summarize(item)}>
        {summarize(item) || NONE}
      </Text>
    ),
  },
  {
    key: "scope",
    title: "Project",
    width: 150,
    kind: "keyword",
    render: (item) => <ScopeLink scope={item.scope} />,
  },
  {
    key: "runs",
    title: "Runs",
    width: 80,
    kind: "number",
    align: "right",
    render: (item) => <RunsLink item={item} />,
  },
  {
    key: "last_run_at",
    title: "Last run",
    width: 125,
    kind: "time",
    render: (item) => <Time at={item.last_run_at} />,
  },
  CREATED_BY,
  CREATED_AT,
  UPDATED_AT,
  REVISION,
  { ...UPDATED_BY, isExtra: true },
];

/** The number of runs, with a link to the list. */
function RunsLink({ item }: { item: FunctionRecord }) {
  return (
    <Anchor
      component={Link}
      href={runsAddress(item)}
      fz="inherit"
      aria-label={`${item.runs} runs of ${item.name}`}
    >
      {item.runs.toLocaleString("en")}
    </Anchor>
  );
}

export function runsAddress(item: FunctionRecord): string {
  return `/runs?${new URLSearchParams({ function: `=${item.name}`, scope: item.scope })}`;
}

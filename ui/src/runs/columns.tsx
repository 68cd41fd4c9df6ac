/** Columns of the runs table. */
import { Anchor } from "@mantine/core";
import { Link } from "wouter";
import type { Run } from "../api/runs";
import { splitScope } from "../api/scopes";
import { showBytes } from "../format/amounts";
import { ACTIONS, REASONS, STATES, showType } from "../format/runs";
import { Time } from "../format/Time";
import { ScopeLink } from "../scopes/ScopeLink";
import { type Column, NONE } from "../table/columns";
import { CREATED_AT, CREATED_BY } from "../table/stamps";
import { Duration } from "./Duration";
import { RunLink } from "./RunLink";
import { StateBadge } from "./StateBadge";

export const COLUMNS: Column<Run>[] = [
  {
    key: "function",
    title: "Run",
    width: 215,
    kind: "text",
    render: (run) => <RunLink run={run} />,
  },
  {
    key: "state",
    title: "State",
    width: 110,
    kind: "keyword",
    options: STATES,
    render: (run) => <StateBadge state={run.state} />,
  },
  {
    key: "reason",
    title: "Reason",
    width: 130,
    kind: "keyword",
    options: REASONS,
    render: (run) => <span title={run.message}>{run.reason || NONE}</span>,
  },
  {
    key: "duration",
    title: "Duration",
    width: 105,
    isUnsorted: true,
    render: (run) => <Duration run={run} />,
  },
  CREATED_AT,
  {
    key: "scope",
    title: "Project",
    width: 140,
    kind: "keyword",
    render: (run) => <ScopeLink scope={run.scope} />,
  },
  {
    key: "action",
    title: "Type",
    width: 95,
    kind: "keyword",
    options: ACTIONS,
    render: (run) => showType(run.action),
  },
  linked("compute_resource", "Compute resource", "/compute-resources"),
  requested("gpus", "GPUs", 75, (run) => run.gpus || NONE),
  requested("cpu_millicores", "CPU", 75, (run) => (run.cpu_millicores ? run.cpu_millicores / 1000 : NONE)),
  requested("mem_bytes", "Memory", 95, (run) => (run.mem_bytes ? showBytes(run.mem_bytes) : NONE)),
  CREATED_BY,
  {
    key: "finished_at",
    title: "Ended",
    width: 125,
    kind: "time",
    render: (run) => <Time at={run.finished_at} />,
  },
  {
    key: "started_at",
    title: "Started",
    width: 125,
    isUnsorted: true,
    isExtra: true,
    render: (run) => <Time at={run.started_at} />,
  },
  { ...linked("template", "Template", "/templates"), isExtra: true },
  {
    key: "schedule",
    title: "Schedule",
    width: 130,
    kind: "keyword",
    isExtra: true,
    render: (run) => run.schedule || NONE,
  },
  {
    key: "priority",
    title: "Priority",
    width: 90,
    kind: "number",
    align: "right",
    isExtra: true,
    render: (run) => run.priority || NONE,
  },
  {
    key: "cluster",
    title: "Cluster",
    width: 120,
    isUnsorted: true,
    isExtra: true,
    render: (run) => (run.cluster ? splitScope(run.cluster).name : NONE),
  },
  {
    key: "message",
    title: "Message",
    width: 340,
    isUnsorted: true,
    isExtra: true,
    render: (run) => <span title={run.message}>{run.message || NONE}</span>,
  },
  {
    key: "active",
    title: "Active",
    width: 80,
    kind: "boolean",
    isExtra: true,
    render: (run) => (run.active ? "yes" : "no"),
  },
  {
    key: "id",
    title: "ID",
    width: 290,
    kind: "keyword",
    isExtra: true,
    render: (run) => run.id,
  },
];

/** A column of names that link to their pages. */
function linked(key: "compute_resource" | "template", title: string, path: string): Column<Run> {
  return {
    key,
    title,
    width: 155,
    kind: "keyword",
    render: ({ [key]: name }) =>
      name ? (
        <Anchor component={Link} href={`${path}/${encodeURIComponent(name)}`} fz="inherit">
          {name}
        </Anchor>
      ) : (
        NONE
      ),
  };
}

/** A column with the total requested by all pods. The server cannot sort by it. */
function requested(key: string, title: string, width: number, render: Column<Run>["render"]): Column<Run> {
  return { key, title, width, isUnsorted: true, align: "right", render };
}

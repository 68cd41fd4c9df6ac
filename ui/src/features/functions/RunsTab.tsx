/** Tab with the runs of a function, newest first. */
import { Anchor, Group, Text } from "@mantine/core";
import { useMemo } from "react";
import { Link } from "wouter";
import { useMay } from "../../api/currentUser";
import { useList } from "../../api/lists";
import type { Run } from "../../api/runs";
import { splitScope } from "../../api/scopes";
import { shortName } from "../../format/runs";
import { COLUMNS } from "../../runs/columns";
import { newRunAddress } from "../../shell/addresses";
import { ProblemAlert } from "../../shell/Problem";
import type { Column } from "../../table/columns";
import { Table } from "../../table/Table";
import { useView } from "../../table/views";
import classes from "./Code.module.css";
import { runsAddress } from "./columns";
import type { FunctionRecord } from "./requests";

const SHOWN_KEYS = [
  "function",
  "state",
  "reason",
  "compute_resource",
  "created_by",
  "created_at",
  "duration",
];
const RUN_AGAIN: Column<Run> = {
  key: "again",
  title: "Run again",
  width: 110,
  isUnsorted: true,
  render: (run) => (
    <Anchor
      component={Link}
      href={newRunAddress({ from: run.id })}
      fz="inherit"
      aria-label={`Run again: ${shortName(run)}`}
    >
      Run again
    </Anchor>
  ),
};
const RUN_COLUMNS = COLUMNS.filter((column) => SHOWN_KEYS.includes(column.key));

export function RunsTab({ item }: { item: FunctionRecord }) {
  const isMember = useMay()("member", item.scope);
  const columns = isMember ? [...RUN_COLUMNS, RUN_AGAIN] : RUN_COLUMNS;
  const view = useView("runs of a function", columns, "-created_at");
  const query = useMemo(() => {
    const params = new URLSearchParams(view.query);
    params.append("function", `=${item.name}`);
    return params;
  }, [view.query, item.name]);
  const list = useList("/api/v1/projects/{project}/runs", query, { project: splitScope(item.scope).name });
  if (list.error && list.items.length === 0) {
    return <ProblemAlert error={list.error} title="Could not load runs" onRetry={list.retry} />;
  }
  return (
    <div className={classes.runs}>
      <Table<Run>
        label={`Runs of ${item.name}`}
        columns={columns}
        view={view}
        list={list}
        nameOf={shortName}
        empty={
          <Text size="sm" c="dimmed" ta="center" py="xl">
            No runs yet
          </Text>
        }
      />
      <Group justify="space-between">
        <Text size="xs" c="dimmed" className="number" role="status">
          {list.isLoading ? "Loading" : showCount(list.total ?? list.items.length)}
        </Text>
        <Anchor component={Link} href={runsAddress(item)} fz="sm">
          Open in Runs
        </Anchor>
      </Group>
    </div>
  );
}

function showCount(count: number): string {
  return count === 1 ? "1 run" : `${count.toLocaleString("en")} runs`;
}

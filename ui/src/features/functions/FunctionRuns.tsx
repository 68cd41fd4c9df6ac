/** The runs of one function, the newest first, each to be run again. */
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

const SHOWN = ["function", "state", "reason", "compute_resource", "created_by", "created_at", "duration"];
const AGAIN: Column<Run> = {
  key: "again",
  title: "Again",
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
const OURS = COLUMNS.filter((column) => SHOWN.includes(column.key));

export function FunctionRuns({ item }: { item: FunctionRecord }) {
  const isMember = useMay()("member", item.scope);
  const columns = isMember ? [...OURS, AGAIN] : OURS;
  const view = useView("runs of a function", columns, "-created_at");
  const query = useMemo(() => {
    const wanted = new URLSearchParams(view.query);
    wanted.append("function", `=${item.name}`);
    return wanted;
  }, [view.query, item.name]);
  const list = useList("/api/v1/projects/{project}/runs", query, { project: splitScope(item.scope).name });
  if (list.error && list.items.length === 0) {
    return <ProblemAlert error={list.error} title="Its runs cannot be shown" onRetry={list.retry} />;
  }
  return (
    <div className={classes.runs}>
      <Table<Run>
        label={`Runs of ${item.name}`}
        columns={columns}
        view={view}
        list={list}
        keyOf={(run) => run.id}
        nameOf={shortName}
        empty={
          <Text size="sm" c="dimmed" ta="center" py="xl">
            It has not run yet.
          </Text>
        }
      />
      <Group justify="space-between">
        <Text size="xs" c="dimmed" className="number" role="status">
          {list.isLoading ? "Loading" : showCount(list.total ?? list.items.length)}
        </Text>
        <Anchor component={Link} href={runsAddress(item)} fz="sm">
          Filter and search them among all runs
        </Anchor>
      </Group>
    </div>
  );
}

function showCount(count: number): string {
  return count === 1 ? "1 run" : `${count.toLocaleString("en")} runs`;
}

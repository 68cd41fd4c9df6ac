/** The runs on a cluster and their resources, largest first. */
import { Anchor, Button, Group, Table, Text } from "@mantine/core";
import { Fragment, useMemo, useState } from "react";
import { Link } from "wouter";
import type { ClusterNode } from "../../api/capacities";
import { splitScope } from "../../api/scopes";
import { round, showBytes } from "../../format/amounts";
import { Time } from "../../format/Time";
import { RunLink } from "../../runs/RunLink";
import { StateBadge } from "../../runs/StateBadge";
import { Loading } from "../../shell/Loading";
import { Card } from "../../shell/Page";
import { ProblemAlert } from "../../shell/Problem";
import { NONE } from "../../table/columns";
import { type Allocation, listAllocations } from "./allocations";
import type { Choices } from "./choices";
import { MAX_RUNS, type useScheduledRuns } from "./requests";

const INITIAL_ROWS = 50;

interface Props {
  nodes: ClusterNode[];
  runs: ReturnType<typeof useScheduledRuns>;
  choices: Choices;
}

export function Allocations({ nodes, runs, choices }: Props) {
  const [isExpanded, setExpanded] = useState(false);
  const allocations = useMemo(() => listAllocations(nodes, runs.data ?? {}), [nodes, runs.data]);
  // Only the newest runs are loaded. For the others, only the IDs are known.
  const isTruncated = Object.keys(runs.data ?? {}).length >= MAX_RUNS;
  const others = nodes.reduce((sum, node) => sum + node.others, 0);
  return (
    <Card title="Allocations" about="Runs holding resources.">
      <ProblemAlert error={runs.error} onRetry={() => void runs.refetch()} />
      {runs.isPending && <Loading />}
      {runs.data && allocations.length === 0 && (
        <Text size="sm" c="dimmed">
          No visible runs on this cluster.
        </Text>
      )}
      {allocations.length > 0 && (
        <AllocationTable
          allocations={isExpanded ? allocations : allocations.slice(0, INITIAL_ROWS)}
          choices={choices}
        />
      )}
      {allocations.length > INITIAL_ROWS && !isExpanded && (
        <Group>
          <Button size="xs" variant="default" onClick={() => setExpanded(true)}>
            Show all {allocations.length.toLocaleString("en")} runs
          </Button>
        </Group>
      )}
      {isTruncated && (
        <Text size="sm" c="dimmed">
          Only the newest {MAX_RUNS.toLocaleString("en")} runs are included.{" "}
          <Anchor component={Link} href="/runs?active=true" fz="inherit" underline="always">
            All active runs
          </Anchor>
        </Text>
      )}
      {others > 0 && (
        <Text size="sm" c="dimmed">
          {others.toLocaleString("en")} other {others === 1 ? "pod" : "pods"}
        </Text>
      )}
    </Card>
  );
}

function AllocationTable({ allocations, choices }: { allocations: Allocation[]; choices: Choices }) {
  return (
    <Table.ScrollContainer minWidth={760} type="native">
      <Table fz="sm">
        <Table.Thead>
          <Table.Tr>
            <Table.Th>Run</Table.Th>
            <Table.Th>Status</Table.Th>
            <Table.Th ta="right">GPUs</Table.Th>
            <Table.Th ta="right">CPU</Table.Th>
            <Table.Th ta="right">Memory</Table.Th>
            <Table.Th>Node</Table.Th>
            <Table.Th>Project</Table.Th>
            <Table.Th>User</Table.Th>
            <Table.Th>Since</Table.Th>
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody className="number">
          {allocations.map(({ run, nodes }) => (
            <Table.Tr key={run.id}>
              <Table.Td>
                <RunLink run={run} />
              </Table.Td>
              <Table.Td>
                <StateBadge state={run.state} />
              </Table.Td>
              <Table.Td ta="right">{run.gpus || NONE}</Table.Td>
              <Table.Td ta="right">{round(run.cpu_millicores / 1000)}</Table.Td>
              <Table.Td ta="right">{showBytes(run.mem_bytes)}</Table.Td>
              <Table.Td>
                <NodeLinks nodes={nodes} choices={choices} />
              </Table.Td>
              <Table.Td>{splitScope(run.scope).name}</Table.Td>
              <Table.Td>{run.created_by}</Table.Td>
              <Table.Td>
                <Time at={run.started_at ?? run.created_at} />
              </Table.Td>
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </Table.ScrollContainer>
  );
}

function NodeLinks({ nodes, choices }: { nodes: string[]; choices: Choices }) {
  return nodes.map((node, at) => (
    <Fragment key={node}>
      {at > 0 && ", "}
      <Anchor component="button" type="button" fz="inherit" onClick={() => choices.choose({ node })}>
        {node}
      </Anchor>
    </Fragment>
  ));
}

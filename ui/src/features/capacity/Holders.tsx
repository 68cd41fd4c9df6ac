/** Who holds what of a cluster: its runs that have a place, those that hold the most first. */
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
import type { Choices } from "./choices";
import { type Holder, listHolders } from "./holding";
import { MOST_HOLDERS, type useHolders } from "./requests";

const FIRST = 50;

interface Props {
  nodes: ClusterNode[];
  holders: ReturnType<typeof useHolders>;
  choices: Choices;
}

export function Holders({ nodes, holders, choices }: Props) {
  const [isLong, setLong] = useState(false);
  const found = useMemo(() => listHolders(nodes, holders.data ?? {}), [nodes, holders.data]);
  // Of what was not read, the nodes know the ids alone.
  const isCut = Object.keys(holders.data ?? {}).length >= MOST_HOLDERS;
  const others = nodes.reduce((sum, node) => sum + node.others, 0);
  return (
    <Card title="Who holds what" about="The runs that have a place, with what is set aside for each.">
      <ProblemAlert error={holders.error} onRetry={() => void holders.refetch()} />
      {holders.isPending && <Loading />}
      {holders.data && found.length === 0 && (
        <Text size="sm" c="dimmed">
          No run that you see holds anything here.
        </Text>
      )}
      {found.length > 0 && <HolderTable holders={isLong ? found : found.slice(0, FIRST)} choices={choices} />}
      {found.length > FIRST && !isLong && (
        <Group>
          <Button size="xs" variant="default" onClick={() => setLong(true)}>
            Show all {found.length.toLocaleString("en")} runs
          </Button>
        </Group>
      )}
      {isCut && (
        <Text size="sm" c="dimmed">
          Of the runs that you see, the newest {MOST_HOLDERS.toLocaleString("en")} with a place are looked at.{" "}
          <Anchor component={Link} href="/runs?active=true" fz="inherit" underline="always">
            All that are live
          </Anchor>
        </Text>
      )}
      {others > 0 && (
        <Text size="sm" c="dimmed">
          {others.toLocaleString("en")} {others === 1 ? "pod" : "pods"} more hold something: not Fairlead's,
          or not for you to see.
        </Text>
      )}
    </Card>
  );
}

function HolderTable({ holders, choices }: { holders: Holder[]; choices: Choices }) {
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
          {holders.map(({ run, nodes }) => (
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

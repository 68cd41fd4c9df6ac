/** The unfinished runs that use one. */
import { Badge, Table, Text } from "@mantine/core";
import { ProblemAlert } from "../../shell/Problem";
import { Waiting } from "../../shell/Waiting";
import { showState, showType } from "../../words/runs";
import { type AssetKind, useWorkloads } from "./requests";

export function Workloads({ kind, id }: { kind: AssetKind; id: string }) {
  const found = useWorkloads(kind, id);
  if (found.error) return <ProblemAlert error={found.error} onRetry={() => void found.refetch()} />;
  if (!found.data) return <Waiting />;
  if (found.data.items.length === 0) return <NoUsers text="No unfinished workload uses it." />;
  return (
    <Table fz="sm">
      <Table.Thead>
        <Table.Tr>
          <Table.Th>Workload</Table.Th>
          <Table.Th>Type</Table.Th>
          <Table.Th>Status</Table.Th>
          <Table.Th>Project</Table.Th>
        </Table.Tr>
      </Table.Thead>
      <Table.Tbody>
        {found.data.items.map((run) => (
          <Table.Tr key={run.id}>
            <Table.Td>
              {run.function}{" "}
              <Text span size="xs" c="dimmed" ff="monospace">
                {run.id.slice(-8)}
              </Text>
            </Table.Td>
            <Table.Td>{showType(run.action)}</Table.Td>
            <Table.Td>
              <Badge color={showState(run.state).color}>{showState(run.state).label}</Badge>
            </Table.Td>
            <Table.Td>{run.scope.split("/")[1]}</Table.Td>
          </Table.Tr>
        ))}
      </Table.Tbody>
    </Table>
  );
}

export function NoUsers({ text }: { text: string }) {
  return (
    <Text size="sm" c="dimmed" py="md">
      {text}
    </Text>
  );
}

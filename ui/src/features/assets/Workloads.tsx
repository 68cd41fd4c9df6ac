/** Active runs that use a compute resource or template. */
import { Table, Text } from "@mantine/core";
import { splitScope } from "../../api/scopes";
import { showType } from "../../format/runs";
import { RunLink } from "../../runs/RunLink";
import { StateBadge } from "../../runs/StateBadge";
import { Loading } from "../../shell/Loading";
import { ProblemAlert } from "../../shell/Problem";
import { type AssetKind, useWorkloads } from "./requests";

export function Workloads({ kind, id }: { kind: AssetKind; id: string }) {
  const query = useWorkloads(kind, id);
  if (query.error) return <ProblemAlert error={query.error} onRetry={() => void query.refetch()} />;
  if (!query.data) return <Loading />;
  if (query.data.items.length === 0) return <EmptyMessage text="Not used by any active workload." />;
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
        {query.data.items.map((run) => (
          <Table.Tr key={run.id}>
            <Table.Td>
              <RunLink run={run} />
            </Table.Td>
            <Table.Td>{showType(run.action)}</Table.Td>
            <Table.Td>
              <StateBadge state={run.state} />
            </Table.Td>
            <Table.Td>{splitScope(run.scope).name}</Table.Td>
          </Table.Tr>
        ))}
      </Table.Tbody>
    </Table>
  );
}

export function EmptyMessage({ text }: { text: string }) {
  return (
    <Text size="sm" c="dimmed" py="md">
      {text}
    </Text>
  );
}

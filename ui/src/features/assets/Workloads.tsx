/** The unfinished runs that use one. */
import { Table, Text } from "@mantine/core";
import { splitScope } from "../../api/scopes";
import { showType } from "../../format/runs";
import { RunLink } from "../../runs/RunLink";
import { StateBadge } from "../../runs/StateBadge";
import { Loading } from "../../shell/Loading";
import { ProblemAlert } from "../../shell/Problem";
import { type AssetKind, useWorkloads } from "./requests";

export function Workloads({ kind, id }: { kind: AssetKind; id: string }) {
  const found = useWorkloads(kind, id);
  if (found.error) return <ProblemAlert error={found.error} onRetry={() => void found.refetch()} />;
  if (!found.data) return <Loading />;
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

export function NoUsers({ text }: { text: string }) {
  return (
    <Text size="sm" c="dimmed" py="md">
      {text}
    </Text>
  );
}

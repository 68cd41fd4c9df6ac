/** Templates that reference a compute resource. */
import { Anchor, Table } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link } from "wouter";
import { client, unwrap } from "../../api/client";
import { Loading } from "../../shell/Loading";
import { ProblemAlert } from "../../shell/Problem";
import { EmptyMessage } from "../assets/Workloads";

export function Templates({ id }: { id: string }) {
  const path = "/api/v1/compute-resources/{name}/templates";
  const query = useQuery({
    queryKey: [path, id],
    queryFn: () => unwrap(client.GET(path, { params: { path: { name: id } } })),
  });
  if (query.error) return <ProblemAlert error={query.error} onRetry={() => void query.refetch()} />;
  if (!query.data) return <Loading />;
  if (query.data.length === 0) return <EmptyMessage text="Not used by any template." />;
  return (
    <Table fz="sm">
      <Table.Thead>
        <Table.Tr>
          <Table.Th>Template</Table.Th>
          <Table.Th>Scope</Table.Th>
          <Table.Th>Description</Table.Th>
        </Table.Tr>
      </Table.Thead>
      <Table.Tbody>
        {query.data.map((template) => (
          <Table.Tr key={template.id}>
            <Table.Td>
              <Anchor component={Link} href={`/templates/${template.name}`} fz="inherit">
                {template.name}
              </Anchor>
            </Table.Td>
            <Table.Td>{template.scope}</Table.Td>
            <Table.Td>{template.description}</Table.Td>
          </Table.Tr>
        ))}
      </Table.Tbody>
    </Table>
  );
}

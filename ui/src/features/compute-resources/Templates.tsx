/** The templates that name a compute resource. */
import { Anchor, Table } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link } from "wouter";
import { client, unwrap } from "../../api/client";
import { Loading } from "../../shell/Loading";
import { ProblemAlert } from "../../shell/Problem";
import { NoUsers } from "../assets/Workloads";

export function Templates({ id }: { id: string }) {
  const path = "/api/v1/compute-resources/{name}/templates";
  const found = useQuery({
    queryKey: [path, id],
    queryFn: () => unwrap(client.GET(path, { params: { path: { name: id } } })),
  });
  if (found.error) return <ProblemAlert error={found.error} onRetry={() => void found.refetch()} />;
  if (!found.data) return <Loading />;
  if (found.data.length === 0) return <NoUsers text="No template names it." />;
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
        {found.data.map((template) => (
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

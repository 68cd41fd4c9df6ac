import { Table } from "@mantine/core";
import type { ReactNode } from "react";

/** A two-column table of names and values. */
export function Facts({ facts }: { facts: [string, ReactNode][] }) {
  return (
    <Table fz="sm" layout="fixed">
      <Table.Tbody>
        {facts.map(([title, value]) => (
          <Table.Tr key={title}>
            <Table.Th w={125} fw={400} c="dimmed" scope="row">
              {title}
            </Table.Th>
            <Table.Td style={{ overflowWrap: "anywhere" }}>{value}</Table.Td>
          </Table.Tr>
        ))}
      </Table.Tbody>
    </Table>
  );
}

import { Table, Text } from "@mantine/core";
import { ScrolledTable } from "./ScrolledTable";
import { showValue } from "./values";

interface Props {
  differences: { path: string; before?: unknown; after?: unknown }[];
  titles?: [string, string];
}

/** A table of changed fields with their old and new values. */
export function Differences({ differences, titles = ["Before", "After"] }: Props) {
  if (differences.length === 0) {
    return (
      <Text size="sm" c="dimmed">
        No differences.
      </Text>
    );
  }
  return (
    <ScrolledTable minWidth={420}>
      <Table.Thead>
        <Table.Tr>
          <Table.Th>Field</Table.Th>
          <Table.Th>{titles[0]}</Table.Th>
          <Table.Th>{titles[1]}</Table.Th>
        </Table.Tr>
      </Table.Thead>
      <Table.Tbody>
        {differences.map((difference) => (
          <Table.Tr key={difference.path}>
            <Table.Td ff="monospace" fz="xs">
              {difference.path}
            </Table.Td>
            <Table.Td>
              <Text size="sm" component="del" td="none" c="var(--mantine-color-error)">
                {showValue(difference.before)}
              </Text>
            </Table.Td>
            <Table.Td>
              <Text
                size="sm"
                component="ins"
                td="none"
                c="light-dark(var(--mantine-color-teal-9), var(--mantine-color-teal-4))"
              >
                {showValue(difference.after)}
              </Text>
            </Table.Td>
          </Table.Tr>
        ))}
      </Table.Tbody>
    </ScrolledTable>
  );
}

import { Table, Text } from "@mantine/core";
import { ScrolledTable } from "./ScrolledTable";
import { showValue } from "./values";

interface Props {
  differences: { path: string; before?: unknown; after?: unknown }[];
  titles?: [string, string];
}

/** What was and what is, side by side. */
export function Differences({ differences, titles = ["Before", "After"] }: Props) {
  if (differences.length === 0) {
    return (
      <Text size="sm" c="dimmed">
        Nothing is different.
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
        {differences.map((found) => (
          <Table.Tr key={found.path}>
            <Table.Td ff="monospace" fz="xs">
              {found.path}
            </Table.Td>
            <Table.Td>
              <Text size="sm" component="del" td="none" c="var(--mantine-color-error)">
                {showValue(found.before)}
              </Text>
            </Table.Td>
            <Table.Td>
              <Text
                size="sm"
                component="ins"
                td="none"
                c="light-dark(var(--mantine-color-teal-9), var(--mantine-color-teal-4))"
              >
                {showValue(found.after)}
              </Text>
            </Table.Td>
          </Table.Tr>
        ))}
      </Table.Tbody>
    </ScrolledTable>
  );
}

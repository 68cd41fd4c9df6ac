import { Table, Text } from "@mantine/core";
import { listLeaves, showValue } from "./values";

/** A table of the paths and values of nested settings. Shows `emptyText` if there are none. */
export function Leaves({ of: tree, emptyText }: { of: unknown; emptyText: string }) {
  const leaves = listLeaves(tree);
  if (leaves.length === 0) {
    return (
      <Text size="sm" c="dimmed">
        {emptyText}
      </Text>
    );
  }
  return (
    <Table fz="sm" variant="vertical" layout="fixed" style={{ overflowWrap: "anywhere" }}>
      <Table.Tbody>
        {leaves.map((leaf) => (
          <Table.Tr key={leaf.path}>
            <Table.Th ff="monospace" fz="xs" fw={400}>
              {leaf.path}
            </Table.Th>
            <Table.Td className="number">{showValue(leaf.value)}</Table.Td>
          </Table.Tr>
        ))}
      </Table.Tbody>
    </Table>
  );
}

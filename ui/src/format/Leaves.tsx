import { Table, Text } from "@mantine/core";
import { listLeaves, showValue } from "./values";

/** What a tree of settings says, a line for each; `silent` where it says nothing. */
export function Leaves({ of: tree, silent }: { of: unknown; silent: string }) {
  const leaves = listLeaves(tree);
  if (leaves.length === 0) {
    return (
      <Text size="sm" c="dimmed">
        {silent}
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

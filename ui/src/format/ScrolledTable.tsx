import { Table, type TableProps } from "@mantine/core";

const KEYBOARD = { viewportProps: { tabIndex: 0 } };

/** A table that scrolls horizontally if it is too wide. The keyboard can scroll it, too. */
export function ScrolledTable({ minWidth, ...table }: TableProps & { minWidth: number }) {
  return (
    <Table.ScrollContainer minWidth={minWidth} scrollAreaProps={KEYBOARD}>
      <Table fz="sm" {...table} />
    </Table.ScrollContainer>
  );
}

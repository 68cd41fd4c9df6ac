import { Table, type TableProps } from "@mantine/core";

const KEYBOARD = { viewportProps: { tabIndex: 0 } };

/** A table that scrolls horizontally if it is too wide. It can also be scrolled with the keyboard. */
export function ScrolledTable({ minWidth, ...table }: TableProps & { minWidth: number }) {
  return (
    <Table.ScrollContainer minWidth={minWidth} scrollAreaProps={KEYBOARD}>
      <Table fz="sm" {...table} />
    </Table.ScrollContainer>
  );
}

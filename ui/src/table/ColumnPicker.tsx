import { Button, Checkbox, Popover, ScrollArea, Stack } from "@mantine/core";
import { IconColumns3 } from "@tabler/icons-react";
import type { Column } from "./columns";

interface Props<Item> {
  columns: Column<Item>[];
  chosen: string[];
  onChoose: (keys: string[]) => void;
}

/** The first column names the row, and stays. */
export function ColumnPicker<Item>({ columns, chosen, onChoose }: Props<Item>) {
  const choose = (key: string, isWanted: boolean) => {
    const wanted = isWanted ? [...chosen, key] : chosen.filter((one) => one !== key);
    onChoose(columns.map((column) => column.key).filter((one) => wanted.includes(one)));
  };
  return (
    <Popover position="bottom-end" withinPortal trapFocus shadow="md">
      <Popover.Target>
        <Button variant="default" leftSection={<IconColumns3 size={16} stroke={1.6} />}>
          Columns
        </Button>
      </Popover.Target>
      <Popover.Dropdown aria-label="Columns">
        <ScrollArea.Autosize mah={420}>
          <Stack gap={8} pr="sm">
            {columns.map((column, index) => (
              <Checkbox
                key={column.key}
                size="xs"
                label={column.title}
                checked={chosen.includes(column.key)}
                disabled={index === 0}
                onChange={(event) => choose(column.key, event.currentTarget.checked)}
              />
            ))}
            <Button
              size="compact-xs"
              variant="subtle"
              onClick={() =>
                onChoose(columns.filter((column) => !column.isExtra).map((column) => column.key))
              }
            >
              Show the usual ones
            </Button>
          </Stack>
        </ScrollArea.Autosize>
      </Popover.Dropdown>
    </Popover>
  );
}

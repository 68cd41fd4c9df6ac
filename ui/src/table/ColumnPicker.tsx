import { Button, Checkbox, Popover, ScrollArea, Stack } from "@mantine/core";
import { IconColumns3 } from "@tabler/icons-react";
import type { Column } from "./columns";

interface Props<Item> {
  columns: Column<Item>[];
  chosen: string[];
  onChoose: (keys: string[]) => void;
}

/** Selects the visible columns. The first column identifies the row and cannot be hidden. */
export function ColumnPicker<Item>({ columns, chosen, onChoose }: Props<Item>) {
  const choose = (key: string, isChosen: boolean) => {
    const keys = isChosen ? [...chosen, key] : chosen.filter((one) => one !== key);
    onChoose(columns.map((column) => column.key).filter((one) => keys.includes(one)));
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
              Reset to default
            </Button>
          </Stack>
        </ScrollArea.Autosize>
      </Popover.Dropdown>
    </Popover>
  );
}

/** A form for adding a filter, and a list of the active filters. */
import { Autocomplete, Button, Group, Pill, Popover, Select, Stack } from "@mantine/core";
import { useDisclosure } from "@mantine/hooks";
import { IconFilterPlus } from "@tabler/icons-react";
import { useState } from "react";
import { TextField } from "../forms/TextField";
import type { Column } from "./columns";
import { OPERATORS, readFilter, writeFilter } from "./filters";
import type { Filter, View } from "./views";

interface Props<Item> {
  columns: Column<Item>[];
  view: View;
}

export function AddFilter<Item>({ columns, view }: Props<Item>) {
  const [isOpen, { open, close, toggle }] = useDisclosure();
  return (
    <Popover
      position="bottom-start"
      withinPortal
      trapFocus
      shadow="md"
      opened={isOpen}
      onChange={(next) => (next ? open() : close())}
    >
      <Popover.Target>
        <Button variant="default" leftSection={<IconFilterPlus size={16} stroke={1.6} />} onClick={toggle}>
          Add filter
        </Button>
      </Popover.Target>
      <Popover.Dropdown>
        <FilterForm
          columns={columns.filter((column) => column.kind)}
          onAdd={(filter) => {
            view.addFilter(filter);
            close();
          }}
        />
      </Popover.Dropdown>
    </Popover>
  );
}

function FilterForm<Item>({ columns, onAdd }: { columns: Column<Item>[]; onAdd: (filter: Filter) => void }) {
  const [key, setKey] = useState(columns[0]!.key);
  const [sign, setSign] = useState<string | null>(null);
  const [value, setValue] = useState("");
  const column = columns.find((one) => one.key === key)!;
  const operators = OPERATORS[column.kind!];
  const operator = operators.find((one) => one.sign === sign) ?? operators[0]!;
  // A dropdown in a portal would be outside the popover, and clicking it would close the popover.
  const inPopover = { withinPortal: false };
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        // React events bubble out of portals, so a form around the table would also be submitted.
        event.stopPropagation();
        onAdd({ column: key, text: writeFilter(operator, value.trim()) });
      }}
    >
      <Stack gap="xs" w={260}>
        <Select
          label="Column"
          size="xs"
          data={columns.map((one) => ({ value: one.key, label: one.title }))}
          value={key}
          onChange={(next) => {
            setKey(next ?? key);
            setSign(null);
            setValue("");
          }}
          searchable
          comboboxProps={inPopover}
        />
        <Select
          label="Comparison"
          size="xs"
          data={operators.map((one) => ({ value: one.sign, label: one.label }))}
          value={operator.sign}
          onChange={setSign}
          comboboxProps={inPopover}
        />
        {operator.fixed === undefined && <ValueInput column={column} value={value} onChange={setValue} />}
        <Button type="submit" size="xs" disabled={operator.fixed === undefined && !value.trim()}>
          Apply
        </Button>
      </Stack>
    </form>
  );
}

function ValueInput<Item>({
  column,
  value,
  onChange,
}: {
  column: Column<Item>;
  value: string;
  onChange: (value: string) => void;
}) {
  const shared = { label: "Value", size: "xs" } as const;
  if (column.kind === "time") {
    return <TextField {...shared} type="date" value={value} onChange={onChange} />;
  }
  if (column.options) {
    return (
      <Autocomplete
        {...shared}
        data={column.options}
        value={value}
        onChange={onChange}
        // Opens upward, because the Apply button is below.
        maxDropdownHeight={160}
        comboboxProps={{ withinPortal: false, position: "top", middlewares: { flip: false, shift: true } }}
      />
    );
  }
  const example = column.kind === "number" ? "e.g. 4 or 32Gi" : undefined;
  return <TextField {...shared} placeholder={example} value={value} onChange={onChange} />;
}

export function FilterPills<Item>({ columns, view }: Props<Item>) {
  if (view.filters.length === 0) return null;
  return (
    <Group gap={6}>
      <Group gap={6} role="list" aria-label="Filters">
        {view.filters.map((filter) => (
          <Pill
            key={`${filter.column}=${filter.text}`}
            role="listitem"
            withRemoveButton
            size="md"
            onRemove={() => view.removeFilter(filter)}
            // By default, Mantine hides this button from the keyboard and from screen readers.
            removeButtonProps={{
              "aria-label": `Remove filter: ${describe(columns, filter)}`,
              tabIndex: 0,
              "aria-hidden": false,
            }}
          >
            {describe(columns, filter)}
          </Pill>
        ))}
      </Group>
      <Button size="compact-xs" variant="subtle" onClick={view.clear}>
        Clear all
      </Button>
    </Group>
  );
}

function describe<Item>(columns: Column<Item>[], filter: Filter): string {
  const column = columns.find((one) => one.key === filter.column);
  if (!column?.kind) return `${filter.column} ${filter.text}`;
  const { operator, value } = readFilter(column.kind, filter.text);
  return `${column.title} ${operator.label} ${value}`.trim();
}

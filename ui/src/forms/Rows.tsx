/** An editable list of rows, such as labels, tolerations or volumes. */
import { ActionIcon, Button, Group, Input, Stack } from "@mantine/core";
import { IconPlus, IconTrash } from "@tabler/icons-react";
import type { ReactNode } from "react";

interface Props<Row> {
  title: string;
  /** The singular name of a row, e.g. "node label". */
  noun: string;
  rows: Row[];
  onChange: (rows: Row[]) => void;
  create: () => Row;
  render: (row: Row, change: (part: Partial<Row>) => void, label: string, index: number) => ReactNode;
  error?: string;
  description?: string;
  /** Content below the rows. */
  notes?: ReactNode;
}

export function Rows<Row>({
  title,
  noun,
  rows,
  onChange,
  create,
  render,
  error,
  description,
  notes,
}: Props<Row>) {
  return (
    <Stack gap={6} role="group" aria-label={title}>
      <div>
        <Input.Label component="div">{title}</Input.Label>
        {description && <Input.Description>{description}</Input.Description>}
      </div>
      {rows.map((row, index) => {
        const label = `${noun} ${index + 1}`;
        return (
          <Group key={index} gap="xs" wrap="nowrap" align="flex-start">
            {render(
              row,
              (part) => onChange(rows.map((other, at) => (at === index ? { ...other, ...part } : other))),
              label,
              index,
            )}
            <ActionIcon
              variant="subtle"
              color="gray"
              size="lg"
              aria-label={`Remove ${label}`}
              onClick={() => onChange(rows.filter((_, at) => at !== index))}
            >
              <IconTrash size={16} stroke={1.6} />
            </ActionIcon>
          </Group>
        );
      })}
      {notes}
      {error && <Input.Error>{error}</Input.Error>}
      <Button
        variant="subtle"
        size="compact-sm"
        leftSection={<IconPlus size={14} />}
        onClick={() => onChange([...rows, create()])}
        style={{ alignSelf: "flex-start" }}
      >
        Add {noun}
      </Button>
    </Stack>
  );
}

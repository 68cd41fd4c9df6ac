/** Buttons next to a field's input. */
import { Box, Button, Group } from "@mantine/core";
import { IconPlus } from "@tabler/icons-react";
import type { ReactNode } from "react";

/** Places a button next to an input, above its error. Use as `inputContainer`. */
export function withAddon(button: ReactNode) {
  return (input: ReactNode) => (
    <Group gap="xs" align="flex-end">
      <Box flex="1 1 12rem">{input}</Box>
      {button}
    </Group>
  );
}

export function NewButton({ title, onClick }: { title: string; onClick: () => void }) {
  return (
    <Button variant="default" leftSection={<IconPlus size={15} />} onClick={onClick} flex="none">
      {title}
    </Button>
  );
}

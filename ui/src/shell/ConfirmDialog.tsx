/** Asks for confirmation, and shows the error if the action fails. */
import { Button, Group, Stack, Text } from "@mantine/core";
import type { ReactNode } from "react";
import { Dialog } from "./Dialog";
import { ProblemAlert } from "./Problem";

interface Props {
  title: string;
  children: ReactNode;
  /** The label of the submit button: a verb such as "Delete", not "OK". */
  submitLabel: string;
  onConfirm: () => void;
  onClose: () => void;
  /** The mutation that the button starts, if any. */
  change?: { isPending: boolean; error: unknown };
  isHarmless?: boolean;
}

export function ConfirmDialog({
  title,
  children,
  submitLabel,
  onConfirm,
  onClose,
  change,
  isHarmless,
}: Props) {
  return (
    <Dialog onClose={onClose} title={title} isBusy={change?.isPending}>
      <Stack>
        <Text size="sm" component="div">
          {children}
        </Text>
        <ProblemAlert error={change?.error} />
        <Group justify="flex-end">
          <Button variant="default" onClick={onClose} disabled={change?.isPending} data-autofocus>
            Cancel
          </Button>
          <Button color={isHarmless ? undefined : "red.8"} loading={change?.isPending} onClick={onConfirm}>
            {submitLabel}
          </Button>
        </Group>
      </Stack>
    </Dialog>
  );
}

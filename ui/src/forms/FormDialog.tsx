/** A form in a dialog: violations stand at their fields, everything else that went wrong below them. */
import { Button, Group, type ModalProps, Stack } from "@mantine/core";
import type { ReactNode } from "react";
import { type Finding, violationsOf } from "../api/problems";
import { Dialog } from "../shell/Dialog";
import { FindingList, ProblemAlert } from "../shell/Problem";
import { Findings } from "./findings";

interface Props {
  title: string;
  /** The verb on the submit button, not "OK". */
  submitLabel: string;
  children: ReactNode;
  /** The paths that have a field here. Violations elsewhere are listed. */
  fields: string[];
  onSubmit: () => void;
  onClose: () => void;
  /** What it sends. */
  change?: { isPending: boolean; error: unknown };
  /** What is known to be wrong before anything is sent. */
  findings?: Finding[];
  isIncomplete?: boolean;
  size?: ModalProps["size"];
}

export function FormDialog({
  title,
  submitLabel,
  children,
  fields,
  onSubmit,
  onClose,
  change,
  findings = [],
  isIncomplete,
  size,
}: Props) {
  const violations = violationsOf(change?.error);
  const strays = violations.filter(
    (found) => !fields.some((field) => found.path === field || found.path.startsWith(`${field}.`)),
  );
  return (
    <Dialog onClose={onClose} title={title} size={size} isBusy={change?.isPending}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          onSubmit();
        }}
      >
        <Stack>
          <Findings findings={[...violations, ...findings]}>{children}</Findings>
          <FindingList findings={strays} />
          {violations.length === 0 && <ProblemAlert error={change?.error} />}
          <Group justify="flex-end">
            <Button variant="default" onClick={onClose} disabled={change?.isPending}>
              Cancel
            </Button>
            <Button type="submit" loading={change?.isPending} disabled={isIncomplete}>
              {submitLabel}
            </Button>
          </Group>
        </Stack>
      </form>
    </Dialog>
  );
}

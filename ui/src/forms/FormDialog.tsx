/** A form in a dialog. Violations appear next to their fields, and other errors below all fields. */
import { Button, Group, type ModalProps, Stack } from "@mantine/core";
import type { ReactNode } from "react";
import { type Finding, violationsOf } from "../api/problems";
import { Dialog } from "../shell/Dialog";
import { FindingList, ProblemAlert } from "../shell/Problem";
import { Findings } from "./findings";

interface Props {
  title: string;
  /** The label of the submit button: a verb such as "Save", not "OK". */
  submitLabel: string;
  children: ReactNode;
  /** Paths that have a field in the form. Violations at other paths are listed below the fields. */
  fields: string[];
  onSubmit: () => void;
  onClose: () => void;
  /** The mutation that submits the form. */
  change?: { isPending: boolean; error: unknown };
  /** Errors that are known before the form is submitted. */
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
  const unassigned = violations.filter(
    ({ path }) => !fields.some((field) => path === field || path.startsWith(`${field}.`)),
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
          <FindingList findings={unassigned} />
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

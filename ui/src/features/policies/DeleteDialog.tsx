import { ConfirmDialog } from "../../shell/ConfirmDialog";
import { withNotice } from "../../shell/notices";
import { type PolicyRecord, useDelete } from "./requests";

interface Props {
  read: PolicyRecord;
  force: boolean;
  onClose: () => void;
  onDeleted: () => void;
}

export function DeleteDialog({ read, force, onClose, onDeleted }: Props) {
  const deleting = useDelete();
  return (
    <ConfirmDialog
      title={`Delete the policy of ${read.scope}?`}
      submitLabel="Delete"
      change={deleting}
      onClose={onClose}
      onConfirm={() =>
        deleting.mutate(
          { scope: read.scope, read, force },
          withNotice(`Deleted the policy of ${read.scope}`, onDeleted),
        )
      }
    >
      What it says no longer holds, at <b>{read.scope}</b> and everywhere below. What is said further up still
      does. Runs that are there already stay as they are.
    </ConfirmDialog>
  );
}

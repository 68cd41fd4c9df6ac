import { type Run, useDeleteRun } from "../api/runs";
import { shortName } from "../format/runs";
import { ConfirmDialog } from "../shell/ConfirmDialog";
import { withNotice } from "../shell/notices";

interface Props {
  run: Run;
  onClose: () => void;
  onDeleted: () => void;
}

export function DeleteRunDialog({ run, onClose, onDeleted }: Props) {
  const deleting = useDeleteRun();
  const name = shortName(run);
  return (
    <ConfirmDialog
      title={`Delete ${name}?`}
      submitLabel="Delete"
      change={deleting}
      onClose={onClose}
      onConfirm={() => deleting.mutate(run, withNotice(`Deleted ${name}`, onDeleted))}
    >
      Logs, files, results and history are deleted permanently. The function is kept.
    </ConfirmDialog>
  );
}

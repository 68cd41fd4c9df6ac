import { type Run, useDeleteRun } from "../api/runs";
import { shortName } from "../format/runs";
import { DeleteDialog } from "../shell/DeleteDialog";

interface Props {
  run: Run;
  onClose: () => void;
  onDeleted: () => void;
}

export function DeleteRunDialog({ run, onClose, onDeleted }: Props) {
  const deleting = useDeleteRun();
  const name = shortName(run);
  return (
    <DeleteDialog name={name} target={run} deleting={deleting} onClose={onClose} onDeleted={onDeleted}>
      Logs, files, results and history are deleted permanently. The function is kept.
    </DeleteDialog>
  );
}

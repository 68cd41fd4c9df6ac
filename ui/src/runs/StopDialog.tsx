import { type Run, useStop } from "../api/runs";
import { shortName } from "../format/runs";
import { ConfirmDialog } from "../shell/ConfirmDialog";
import { withNotice } from "../shell/notices";

export function StopDialog({ run, onClose }: { run: Run; onClose: () => void }) {
  const stopping = useStop();
  const name = shortName(run);
  return (
    <ConfirmDialog
      title={`Stop ${name}?`}
      submitLabel="Stop"
      change={stopping}
      onClose={onClose}
      onConfirm={() => stopping.mutate(run.id, withNotice(`Asked ${name} to stop`, onClose))}
    >
      {run.started_at
        ? "It is asked to end, and killed if that takes too long. Its log and the files that it has written are kept; it cannot go on where it was."
        : "It has not started, and never will. It can be run again."}
    </ConfirmDialog>
  );
}

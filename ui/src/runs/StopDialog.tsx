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
      onConfirm={() => stopping.mutate(run.id, withNotice(`Stopping ${name}`, onClose))}
    >
      {run.started_at
        ? "The run has time to shut down before it is killed. Its logs and files are kept, but it can't be resumed."
        : "The run has not started. It will be removed from the queue. You can run it again later."}
    </ConfirmDialog>
  );
}

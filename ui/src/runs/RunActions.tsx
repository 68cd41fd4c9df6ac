/** The actions that the user may perform on a run: stop, run again, delete. */
import { IconPlayerStop, IconPlus, IconRepeat } from "@tabler/icons-react";
import { useState } from "react";
import { useMay } from "../api/currentUser";
import type { Run } from "../api/runs";
import { ActionButton, ActionLink, DangerButton } from "../shell/actions";
import { newRunAddress } from "../shell/addresses";
import { useMoreMemory } from "./amounts";
import { DeleteRunDialog } from "./DeleteRunDialog";
import { StopDialog } from "./StopDialog";

interface Props {
  run: Run;
  /** Called after the run was deleted, for example to leave its page. */
  onDeleted?: () => void;
}

export function RunActions({ run, onDeleted }: Props) {
  const [dialog, setDialog] = useState<"stop" | "delete" | null>(null);
  const close = () => setDialog(null);
  if (!useMay()("member", run.scope)) return null;
  return (
    <>
      {run.active && run.state !== "stopping" && (
        <ActionButton icon={IconPlayerStop} onClick={() => setDialog("stop")}>
          Stop
        </ActionButton>
      )}
      <ActionLink icon={IconRepeat} href={newRunAddress({ from: run.id })}>
        Run again
      </ActionLink>
      {run.reason === "OOMKilled" && <MoreMemory run={run} />}
      {!run.active && <DangerButton onClick={() => setDialog("delete")}>Delete</DangerButton>}
      {dialog === "stop" && <StopDialog run={run} onClose={close} />}
      {dialog === "delete" && (
        <DeleteRunDialog
          run={run}
          onClose={close}
          onDeleted={() => {
            close();
            onDeleted?.();
          }}
        />
      )}
    </>
  );
}

/** Opens the run form with the same request and twice the memory. Hidden until the current memory is known. */
function MoreMemory({ run }: { run: Run }) {
  const mem = useMoreMemory(run);
  if (!mem) return null;
  return (
    <ActionLink icon={IconPlus} href={newRunAddress({ from: run.id, mem })}>
      Retry with more memory
    </ActionLink>
  );
}

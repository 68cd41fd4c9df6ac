/** What can be done to a run, by whoever may: stop it, run it again, forget it. */
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
  /** What follows once it is forgotten: a page of it goes elsewhere. */
  onDeleted?: () => void;
}

export function RunActions({ run, onDeleted }: Props) {
  const [asked, setAsked] = useState<"stop" | "delete" | null>(null);
  const close = () => setAsked(null);
  if (!useMay()("member", run.scope)) return null;
  return (
    <>
      {run.live && run.state !== "stopping" && (
        <ActionButton icon={IconPlayerStop} onClick={() => setAsked("stop")}>
          Stop
        </ActionButton>
      )}
      <ActionLink icon={IconRepeat} href={newRunAddress({ from: run.id })}>
        Run again
      </ActionLink>
      {run.reason === "OOMKilled" && <MoreMemory run={run} />}
      {!run.live && <DangerButton onClick={() => setAsked("delete")}>Delete</DangerButton>}
      {asked === "stop" && <StopDialog run={run} onClose={close} />}
      {asked === "delete" && (
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

/** The form of the same run, with twice the memory that it had, once that is known. */
function MoreMemory({ run }: { run: Run }) {
  const mem = useMoreMemory(run);
  if (!mem) return null;
  return (
    <ActionLink icon={IconPlus} href={newRunAddress({ from: run.id, mem })}>
      Rerun with more memory
    </ActionLink>
  );
}

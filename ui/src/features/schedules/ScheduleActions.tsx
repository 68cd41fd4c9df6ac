/** Buttons to run, pause, edit or delete a schedule, for members of its project. */
import { Text } from "@mantine/core";
import { IconClock, IconPlayerPause, IconPlayerPlay, IconPlayerTrackNext } from "@tabler/icons-react";
import { useState } from "react";
import { useMay } from "../../api/currentUser";
import { ActionButton, DangerButton } from "../../shell/actions";
import { runAddress } from "../../shell/addresses";
import { DeleteDialog } from "../../shell/DeleteDialog";
import { notify, withNotice } from "../../shell/notices";
import { useNavigate } from "../../shell/useNavigate";
import { EditScheduleDialog } from "./EditScheduleDialog";
import { type Schedule, useDeleteSchedule, usePause, useRunNow } from "./requests";

export function ScheduleActions({ item }: { item: Schedule }) {
  const [dialog, setDialog] = useState<"edit" | "delete" | null>(null);
  const navigate = useNavigate();
  const pausing = usePause();
  const running = useRunNow();
  const close = () => setDialog(null);
  if (!useMay()("member", item.scope)) {
    return (
      <Text size="xs" c="dimmed">
        Only members of {item.scope} can change this schedule.
      </Text>
    );
  }
  return (
    <>
      <ActionButton
        icon={IconPlayerTrackNext}
        loading={running.isPending}
        onClick={() =>
          running.mutate(item, {
            onSuccess: (run) => {
              notify(`Submitted a run of ${item.name}`);
              navigate(runAddress(run.id));
            },
          })
        }
      >
        Run now
      </ActionButton>
      <ActionButton
        icon={item.paused ? IconPlayerPlay : IconPlayerPause}
        loading={pausing.isPending}
        onClick={() =>
          pausing.mutate(item, withNotice(`${item.paused ? "Resumed" : "Paused"} ${item.name}`, close))
        }
      >
        {item.paused ? "Resume" : "Pause"}
      </ActionButton>
      <ActionButton icon={IconClock} onClick={() => setDialog("edit")}>
        Edit schedule
      </ActionButton>
      <DangerButton onClick={() => setDialog("delete")}>Delete</DangerButton>
      {dialog === "edit" && <EditScheduleDialog item={item} onClose={close} />}
      {dialog === "delete" && <DeleteScheduleDialog item={item} onClose={close} />}
    </>
  );
}

function DeleteScheduleDialog({ item, onClose }: { item: Schedule; onClose: () => void }) {
  const deleting = useDeleteSchedule();
  return (
    <DeleteDialog
      name={item.name}
      noticeName={`schedule ${item.name}`}
      target={item}
      deleting={deleting}
      onClose={onClose}
      onDeleted={onClose}
    >
      No more runs will start on this schedule. Existing runs are kept.
    </DeleteDialog>
  );
}

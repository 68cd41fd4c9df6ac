/** What can be done to a schedule, by whoever may: run it now, pause it, change its times, forget it. */
import { Text } from "@mantine/core";
import { IconClock, IconPlayerPause, IconPlayerPlay, IconPlayerTrackNext } from "@tabler/icons-react";
import { useState } from "react";
import { useMay } from "../../api/currentUser";
import { ActionButton, DangerButton } from "../../shell/actions";
import { runAddress } from "../../shell/addresses";
import { ConfirmDialog } from "../../shell/ConfirmDialog";
import { notify, withNotice } from "../../shell/notices";
import { useNavigate } from "../../shell/useNavigate";
import { type Schedule, useDeleteSchedule, usePause, useRunNow } from "./requests";
import { TimesDialog } from "./TimesDialog";

export function ScheduleActions({ item }: { item: Schedule }) {
  const [asked, setAsked] = useState<"times" | "delete" | null>(null);
  const navigate = useNavigate();
  const pausing = usePause();
  const running = useRunNow();
  const close = () => setAsked(null);
  if (!useMay()("member", item.scope)) {
    return (
      <Text size="xs" c="dimmed">
        Only members of {item.scope} change it
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
      <ActionButton icon={IconClock} onClick={() => setAsked("times")}>
        Change times
      </ActionButton>
      <DangerButton onClick={() => setAsked("delete")}>Delete</DangerButton>
      {asked === "times" && <TimesDialog item={item} onClose={close} />}
      {asked === "delete" && <DeleteDialog item={item} onClose={close} />}
    </>
  );
}

function DeleteDialog({ item, onClose }: { item: Schedule; onClose: () => void }) {
  const deleting = useDeleteSchedule();
  return (
    <ConfirmDialog
      title={`Delete ${item.name}?`}
      submitLabel="Delete"
      change={deleting}
      onClose={onClose}
      onConfirm={() => deleting.mutate(item, withNotice(`Deleted the schedule ${item.name}`, onClose))}
    >
      Nothing more is submitted by it. Its runs stay.
    </ConfirmDialog>
  );
}

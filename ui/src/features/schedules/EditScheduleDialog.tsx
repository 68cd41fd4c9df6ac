/** Edits when a schedule is due, and how it handles missed and overlapping runs. */
import { Select, Stack } from "@mantine/core";
import { useState } from "react";
import { FormDialog } from "../../forms/FormDialog";
import { TextField } from "../../forms/TextField";
import { withNotice } from "../../shell/notices";
import { type Schedule, useEditSchedule } from "./requests";

const MISSED = [
  { value: "once", label: "Run once" },
  { value: "skip", label: "Skip them" },
  { value: "all", label: "Run once for each" },
];
const OVERLAP = [
  { value: "allow", label: "Start anyway" },
  { value: "skip", label: "Skip this run" },
];

export function EditScheduleDialog({ item, onClose }: { item: Schedule; onClose: () => void }) {
  // The version from when the dialog opened, because the table behind it keeps refreshing.
  const [schedule] = useState(item);
  const editing = useEditSchedule();
  const [cron, setCron] = useState(schedule.cron);
  const [timezone, setTimezone] = useState(schedule.timezone);
  const [missed, setMissed] = useState(schedule.missed);
  const [overlap, setOverlap] = useState(schedule.overlap);
  const change = { cron, timezone, missed: missed as "once", overlap: overlap as "allow" };
  return (
    <FormDialog
      title={`Edit schedule ${schedule.name}`}
      submitLabel="Save"
      fields={["cron", "timezone", "missed", "overlap"]}
      change={editing}
      onClose={onClose}
      onSubmit={() =>
        editing.mutate({ schedule, change }, withNotice(`Saved schedule ${schedule.name}`, onClose))
      }
      isIncomplete={!cron.trim()}
    >
      <Stack>
        <TextField
          label="Schedule"
          description="Cron expression, e.g. 30 6 * * MON-FRI or @daily"
          isCode
          value={cron}
          onChange={setCron}
          path="cron"
          data-autofocus
        />
        <TextField
          label="Time zone"
          description="IANA name, e.g. Europe/Rome"
          value={timezone}
          onChange={setTimezone}
          path="timezone"
        />
        <Select
          label="Missed runs"
          description="If runs were missed while the server was down"
          data={MISSED}
          value={missed}
          onChange={(value) => setMissed(value ?? "once")}
        />
        <Select
          label="Overlapping runs"
          description="If the previous run is still active"
          data={OVERLAP}
          value={overlap}
          onChange={(value) => setOverlap(value ?? "allow")}
        />
      </Stack>
    </FormDialog>
  );
}

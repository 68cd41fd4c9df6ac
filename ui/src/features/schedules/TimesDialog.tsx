/** Says when a schedule is due, and what becomes of the times that were missed. */
import { Select, Stack } from "@mantine/core";
import { useState } from "react";
import { FormDialog } from "../../forms/FormDialog";
import { TextField } from "../../forms/TextField";
import { withNotice } from "../../shell/notices";
import { type Schedule, useChangeTimes } from "./requests";

const MISSED = [
  { value: "once", label: "Run once for all of them" },
  { value: "skip", label: "Leave them out" },
  { value: "all", label: "Run once for each of them" },
];
const OVERLAP = [
  { value: "allow", label: "Run beside it" },
  { value: "skip", label: "Leave the time out" },
];

export function TimesDialog({ item, onClose }: { item: Schedule; onClose: () => void }) {
  const [read] = useState(item); // as it was when this was opened, whatever the table learns meanwhile
  const changing = useChangeTimes();
  const [cron, setCron] = useState(read.cron);
  const [timezone, setTimezone] = useState(read.timezone);
  const [missed, setMissed] = useState(read.missed);
  const [overlap, setOverlap] = useState(read.overlap);
  const times = { cron, timezone, missed: missed as "once", overlap: overlap as "allow" };
  return (
    <FormDialog
      title={`Times of ${read.name}`}
      submitLabel="Change"
      fields={["cron", "timezone", "missed", "overlap"]}
      change={changing}
      onClose={onClose}
      onSubmit={() =>
        changing.mutate({ read, times }, withNotice(`Changed the times of ${read.name}`, onClose))
      }
      isIncomplete={!cron.trim()}
    >
      <Stack>
        <TextField
          label="Times"
          description="Minute, hour, day, month and weekday: 30 6 * * MON-FRI, or @daily"
          isCode
          value={cron}
          onChange={setCron}
          path="cron"
          data-autofocus
        />
        <TextField
          label="Time zone"
          description="Whose clocks count, such as Europe/Rome"
          value={timezone}
          onChange={setTimezone}
          path="timezone"
        />
        <Select
          label="Times that were missed"
          description="At which no server was there"
          data={MISSED}
          value={missed}
          onChange={(value) => setMissed(value ?? "once")}
          allowDeselect={false}
        />
        <Select
          label="While the run before goes on"
          data={OVERLAP}
          value={overlap}
          onChange={(value) => setOverlap(value ?? "allow")}
          allowDeselect={false}
        />
      </Stack>
    </FormDialog>
  );
}

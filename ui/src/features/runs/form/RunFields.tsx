/** What belongs to a run alone: what its function is given, how often it runs, and how long. */
import { SimpleGrid, Stack, Switch } from "@mantine/core";
import { useFinding } from "../../../forms/findings";
import { TextArea, TextField } from "../../../forms/TextField";
import type { RunDraft } from "./drafts";

interface Props {
  draft: RunDraft;
  onChange: (draft: RunDraft) => void;
}

export function RunFields({ draft, onChange }: Props) {
  const finding = useFinding();
  const change = (part: Partial<RunDraft>) => onChange({ ...draft, ...part });
  return (
    <Stack>
      <TextArea
        label="Inputs"
        description="What the function is called with, in YAML or JSON"
        placeholder="epochs: 3"
        autosize
        minRows={2}
        maxRows={14}
        isCode
        value={draft.inputs}
        onChange={(inputs) => change({ inputs })}
        path="inputs"
      />
      <TextField
        label="Arguments"
        description="Of a command or a program, as a shell would read them"
        placeholder="--epochs 3"
        isCode
        value={draft.args}
        onChange={(args) => change({ args })}
        path="args"
      />
      <SimpleGrid cols={{ base: 1, xs: 2 }} spacing="md">
        <TextField
          label="Replicas"
          description="How many pods at once"
          placeholder="1"
          inputMode="numeric"
          value={draft.replicas}
          onChange={(replicas) => change({ replicas })}
          error={finding("replicas")}
        />
        <TextField
          label="Deadline"
          description="When it is ended at the latest: 90m, 2h, 1d12h"
          placeholder="none"
          value={draft.deadline}
          onChange={(deadline) => change({ deadline })}
          path="deadline"
        />
      </SimpleGrid>
      <SimpleGrid cols={{ base: 1, xs: 2 }} spacing="md">
        <TextField
          label="Retries"
          description="How often it is tried again after a failure"
          placeholder="0"
          inputMode="numeric"
          value={draft.retries}
          onChange={(retries) => change({ retries })}
          path="retries"
        />
        <TextField
          label="Priority"
          description="Before others that wait: -100 to 100"
          placeholder="0"
          value={draft.priority}
          onChange={(priority) => change({ priority })}
          path="priority"
        />
        <TextField
          label="Grow after out of memory"
          description="Tried again with so many times the memory"
          placeholder="not"
          value={draft.growth}
          onChange={(growth) => change({ growth })}
          path="on_oom.grow"
        />
        <TextField
          label="Grow up to"
          description="The most memory that it grows to"
          placeholder="64Gi"
          value={draft.mostMemory}
          onChange={(mostMemory) => change({ mostMemory })}
          path="on_oom.max"
        />
        {draft.action === "workspace" && (
          <TextField
            label="Stop when idle"
            description="After how long without use: 30m, 8h"
            placeholder="never"
            value={draft.idleTimeout}
            onChange={(idleTimeout) => change({ idleTimeout })}
            path="idle_timeout"
          />
        )}
        <TextField
          label="Schedule"
          description="Again and again, in place of once: 0 6 * * *"
          placeholder="once, now"
          isCode
          value={draft.cron}
          onChange={(cron) => change({ cron })}
          path="schedule.cron"
        />
        {draft.cron.trim() && (
          <TextField
            label="Time zone"
            description="Whose clocks count, such as Europe/Rome"
            placeholder="UTC"
            value={draft.timezone}
            onChange={(timezone) => change({ timezone })}
            path="schedule.timezone"
          />
        )}
      </SimpleGrid>
      <Switch
        label="Strict"
        description="Refuse to run with other values than were asked for"
        checked={draft.strict}
        onChange={(event) => change({ strict: event.currentTarget.checked })}
      />
    </Stack>
  );
}

/** Fields specific to runs: inputs, arguments, retries, priority, schedule and others. */
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
        description="Arguments for the function (YAML or JSON)"
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
        description="Command-line arguments"
        placeholder="--epochs 3"
        isCode
        value={draft.args}
        onChange={(args) => change({ args })}
        path="args"
      />
      <SimpleGrid cols={{ base: 1, xs: 2 }} spacing="md">
        <TextField
          label="Replicas"
          description="Number of pods"
          placeholder="1"
          inputMode="numeric"
          value={draft.replicas}
          onChange={(replicas) => change({ replicas })}
          error={finding("replicas")}
        />
        <TextField
          label="Deadline"
          description="Stop after, e.g. 90m, 2h, 1d12h"
          placeholder="none"
          value={draft.deadline}
          onChange={(deadline) => change({ deadline })}
          path="deadline"
        />
      </SimpleGrid>
      <SimpleGrid cols={{ base: 1, xs: 2 }} spacing="md">
        <TextField
          label="Retries"
          description="Retries after failure"
          placeholder="0"
          inputMode="numeric"
          value={draft.retries}
          onChange={(retries) => change({ retries })}
          path="retries"
        />
        <TextField
          label="Priority"
          description="Queue priority, -100 to 100"
          placeholder="0"
          value={draft.priority}
          onChange={(priority) => change({ priority })}
          path="priority"
        />
        <TextField
          label="Retry with more memory"
          description="Multiply memory by, e.g. 2"
          placeholder="off"
          value={draft.growth}
          onChange={(growth) => change({ growth })}
          path="on_oom.grow"
        />
        <TextField
          label="Memory cap for retries"
          description="Maximum memory, e.g. 64Gi"
          placeholder="none"
          value={draft.mostMemory}
          onChange={(mostMemory) => change({ mostMemory })}
          path="on_oom.max"
        />
        {draft.action === "workspace" && (
          <TextField
            label="Stop when idle"
            description="Idle time, e.g. 30m, 8h"
            placeholder="never"
            value={draft.idleTimeout}
            onChange={(idleTimeout) => change({ idleTimeout })}
            path="idle_timeout"
          />
        )}
        <TextField
          label="Schedule"
          description="Cron expression, e.g. 0 6 * * *. Leave empty to run once now."
          placeholder="none"
          isCode
          value={draft.cron}
          onChange={(cron) => change({ cron })}
          path="schedule.cron"
        />
        {draft.cron.trim() && (
          <TextField
            label="Time zone"
            description="IANA name, e.g. Europe/Rome"
            placeholder="UTC"
            value={draft.timezone}
            onChange={(timezone) => change({ timezone })}
            path="schedule.timezone"
          />
        )}
      </SimpleGrid>
      <Switch
        label="Strict"
        description="Fail instead of overriding my values"
        checked={draft.strict}
        onChange={(event) => change({ strict: event.currentTarget.checked })}
      />
    </Stack>
  );
}

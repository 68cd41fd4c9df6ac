/** The form of a compute resource or a template, with what it means beside it. */
import { Button, Group, MultiSelect, Stack } from "@mantine/core";
import { useDebouncedValue } from "@mantine/hooks";
import { useState } from "react";
import { useEffectivePolicy } from "../../api/policies";
import { violationsOf } from "../../api/problems";
import { useScopes } from "../../api/scopes";
import { useLast } from "../../format/useLast";
import { Findings, useFinding } from "../../forms/findings";
import { Leaving } from "../../forms/Leaving";
import { tryWriting } from "../../forms/requirements/drafts";
import { RequirementsFields } from "../../forms/requirements/RequirementsFields";
import { TextArea, TextField } from "../../forms/TextField";
import { ScopePicker } from "../../scopes/ScopePicker";
import { Card, Columns, Foot, Page } from "../../shell/Page";
import { ProblemAlert } from "../../shell/Problem";
import { type AssetDraft, writeAsset } from "./drafts";
import { Meaning } from "./Meaning";
import { type AssetKind, useCheck, type WrittenAsset } from "./requests";

const TYPES = [
  { value: "training", label: "Training" },
  { value: "workspace", label: "Workspace" },
  { value: "inference", label: "Inference" },
];
const PAUSE_MS = 300;

interface Props {
  kind: AssetKind;
  title: string;
  submitLabel: string;
  hasTypes: boolean;
  draft: AssetDraft;
  onChange: (draft: AssetDraft) => void;
  onSave: () => void;
  onCancel: () => void;
  isSaving: boolean;
  error: unknown;
}

export function AssetForm({
  kind,
  title,
  submitLabel,
  hasTypes,
  draft,
  onChange,
  onSave,
  onCancel,
  isSaving,
  error,
}: Props) {
  const { written, mistakes } = tryWriting("requirements", () => writeAsset(draft, { hasTypes }));
  const [settled] = useDebouncedValue(written && JSON.stringify(written), PAUSE_MS);
  const check = useCheck(kind, settled ? nameless(JSON.parse(settled)) : null);
  const policy = useEffectivePolicy(draft.scope);
  const told = useLast(check.error ? undefined : check.data);
  const live = check.error ? violationsOf(check.error) : (check.data?.violations ?? []);
  const refused = violationsOf(error).filter((found) => !live.some((other) => other.path === found.path));
  const findings = [...mistakes, ...live, ...refused];
  const [begun] = useState(draft);
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        if (written) onSave();
      }}
    >
      <Leaving isDirty={JSON.stringify(begun) !== JSON.stringify(draft)} />
      <Page title={title}>
        <Findings findings={findings}>
          <Columns
            label="What it means"
            side={
              <Meaning
                sentences={told?.sentences ?? []}
                warnings={check.error ? [] : (told?.warnings ?? [])}
                violations={findings}
                isCurrent={!check.error && !check.isFetching && !check.isPlaceholderData}
              />
            }
          >
            <Card>
              <Basics kind={kind} draft={draft} onChange={onChange} hasTypes={hasTypes} />
            </Card>
            <Card title="Resources of each pod">
              <RequirementsFields
                path="requirements"
                // A template may begin with a compute resource.
                profiles={hasTypes ? undefined : {}}
                value={draft.requirements}
                onChange={(requirements) => onChange({ ...draft, requirements })}
                mayLimitGpuMemory={policy.data?.switches.gpu_memory_limits?.value === true}
              />
            </Card>
          </Columns>
        </Findings>
        {violationsOf(error).length === 0 && <ProblemAlert error={error} />}
        <Foot>
          <Group ml="auto">
            <Button variant="default" onClick={onCancel}>
              Cancel
            </Button>
            <Button type="submit" loading={isSaving}>
              {submitLabel}
            </Button>
          </Group>
        </Foot>
      </Page>
    </form>
  );
}

interface PartProps {
  draft: AssetDraft;
  onChange: (draft: AssetDraft) => void;
}

function Basics({ kind, draft, onChange, hasTypes }: PartProps & { kind: AssetKind; hasTypes: boolean }) {
  const finding = useFinding();
  const scopes = useScopes();
  return (
    <Stack>
      <ScopePicker
        scopes={scopes.data ?? []}
        value={draft.scope}
        onChange={(scope) => onChange({ ...draft, scope })}
        error={finding("scope")}
      />
      <TextField
        label="Name"
        description="Users choose it by this name. It must be unique."
        required
        data-autofocus
        value={draft.name}
        onChange={(name) => onChange({ ...draft, name })}
        path="name"
      />
      <TextArea
        label="Description"
        autosize
        minRows={1}
        value={draft.description}
        onChange={(description) => onChange({ ...draft, description })}
        path="description"
      />
      {hasTypes && (
        <MultiSelect
          label="Workload types"
          description={`Which runs may use this ${kind.noun}`}
          placeholder={draft.workload_types.length === 0 ? "all types" : undefined}
          data={TYPES}
          value={draft.workload_types}
          onChange={(workload_types) => onChange({ ...draft, workload_types })}
          error={finding("workload_types")}
          clearable
        />
      )}
    </Stack>
  );
}

/** A form is looked at before it has a name: that it is missing is told when it is sent. */
function nameless(written: WrittenAsset): WrittenAsset {
  return written.name ? written : { ...written, name: "unnamed" };
}

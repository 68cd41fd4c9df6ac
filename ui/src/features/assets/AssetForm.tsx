/** Form for a compute resource or template, with a live summary next to it. */
import { Button, Group, MultiSelect, Stack } from "@mantine/core";
import { useDebouncedValue } from "@mantine/hooks";
import { useState } from "react";
import { useEffectivePolicy } from "../../api/policies";
import { violationsOf } from "../../api/problems";
import { useScopes } from "../../api/scopes";
import { useLast } from "../../format/useLast";
import { Findings, useFinding } from "../../forms/findings";
import { tryWriting } from "../../forms/requirements/drafts";
import { RequirementsFields } from "../../forms/requirements/RequirementsFields";
import { TextArea, TextField } from "../../forms/TextField";
import { UnsavedChangesGuard } from "../../forms/UnsavedChangesGuard";
import { ScopePicker } from "../../scopes/ScopePicker";
import { Card, Columns, Foot, Page } from "../../shell/Page";
import { ProblemAlert } from "../../shell/Problem";
import { type AssetDraft, writeAsset } from "./drafts";
import { PodSummary } from "./PodSummary";
import { type AssetBody, type AssetKind, useCheck } from "./requests";

const TYPES = [
  { value: "training", label: "Training" },
  { value: "workspace", label: "Workspace" },
  { value: "inference", label: "Inference" },
];
const DEBOUNCE_MS = 300;

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
  const { body, errors } = tryWriting("requirements", () => writeAsset(draft, { hasTypes }));
  const [debounced] = useDebouncedValue(body && JSON.stringify(body), DEBOUNCE_MS);
  const check = useCheck(kind, debounced ? withPlaceholderName(JSON.parse(debounced)) : null);
  const policy = useEffectivePolicy(draft.scope);
  const summary = useLast(check.error ? undefined : check.data);
  const liveViolations = check.error ? violationsOf(check.error) : (check.data?.violations ?? []);
  // Omit violations that the live check already reports for the current values.
  const saveViolations = violationsOf(error).filter(
    ({ path }) => !liveViolations.some((other) => other.path === path),
  );
  const findings = [...errors, ...liveViolations, ...saveViolations];
  const [initialDraft] = useState(draft);
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        if (body) onSave();
      }}
    >
      <UnsavedChangesGuard isDirty={JSON.stringify(initialDraft) !== JSON.stringify(draft)} />
      <Page title={title}>
        <Findings findings={findings}>
          <Columns
            label="Summary"
            side={
              <PodSummary
                sentences={summary?.sentences ?? []}
                warnings={check.error ? [] : (summary?.warnings ?? [])}
                violations={findings}
                isCurrent={!check.error && !check.isFetching && !check.isPlaceholderData}
              />
            }
          >
            <Card>
              <Basics kind={kind} draft={draft} onChange={onChange} hasTypes={hasTypes} />
            </Card>
            <Card title="Resources per pod">
              <RequirementsFields
                path="requirements"
                // Only templates can reference a compute resource.
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
        description="Must be unique. Users select it by this name."
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
          description={`Runs that may use this ${kind.noun}`}
          placeholder={draft.workload_types.length === 0 ? "All types" : undefined}
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

/** Lets the live check run before a name is entered. A missing name is reported on submit. */
function withPlaceholderName(body: AssetBody): AssetBody {
  return body.name ? body : { ...body, name: "unnamed" };
}

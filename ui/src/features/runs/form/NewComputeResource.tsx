/** Creates a compute resource from the run form. Its default scope is the run's project. */
import { Select } from "@mantine/core";
import { useState } from "react";
import { useEffectivePolicy } from "../../../api/policies";
import { FormDialog } from "../../../forms/FormDialog";
import { useFinding } from "../../../forms/findings";
import { tryWriting } from "../../../forms/requirements/drafts";
import { RequirementsFields } from "../../../forms/requirements/RequirementsFields";
import { TextField } from "../../../forms/TextField";
import { withNotice } from "../../../shell/notices";
import { type AssetDraft, readAsset, writeAsset } from "../../assets/drafts";
import { COMPUTE_RESOURCES } from "../../assets/kinds";
import { useCreate } from "../../assets/requests";
import { useScopesAbove } from "./requests";

interface Props {
  project: string;
  onClose: () => void;
  onCreated: (name: string) => void;
}

export function NewComputeResource({ project, onClose, onCreated }: Props) {
  const scopes = useScopesAbove(project);
  const [draft, setDraft] = useState<AssetDraft>(() => ({ ...readAsset(), scope: scopes[0] ?? "" }));
  const change = (part: Partial<AssetDraft>) => setDraft({ ...draft, ...part });
  const creating = useCreate(COMPUTE_RESOURCES);
  const policy = useEffectivePolicy(draft.scope);
  const { body, errors } = tryWriting("requirements", () => writeAsset(draft, { hasTypes: true }));
  return (
    <FormDialog
      title="New compute resource"
      submitLabel="Create compute resource"
      size="xl"
      fields={["name", "description", "scope", "requirements"]}
      findings={errors}
      change={creating}
      isIncomplete={draft.scope === ""}
      onClose={onClose}
      onSubmit={() => {
        if (body)
          creating.mutate(
            body,
            withNotice(`Created ${body.name}`, () => onCreated(body.name)),
          );
      }}
    >
      <TextField
        label="Name"
        description="Must be unique. Users select it by this name."
        required
        data-autofocus
        value={draft.name}
        onChange={(name) => change({ name })}
        path="name"
      />
      <TextField
        label="Description"
        value={draft.description}
        onChange={(description) => change({ description })}
        path="description"
      />
      <ScopeSelect scopes={scopes} value={draft.scope} onChange={(scope) => change({ scope })} />
      <RequirementsFields
        path="requirements"
        value={draft.requirements}
        onChange={(requirements) => change({ requirements })}
        mayLimitGpuMemory={policy.data?.switches.gpu_memory_limits?.value === true}
      />
    </FormDialog>
  );
}

interface ScopeProps {
  scopes: string[];
  value: string;
  onChange: (scope: string) => void;
}

function ScopeSelect({ scopes, value, onChange }: ScopeProps) {
  const finding = useFinding();
  return (
    <Select
      label="Scope"
      description="Available in this scope and below"
      data={scopes}
      value={value || null}
      onChange={(scope) => scope && onChange(scope)}
      error={finding("scope")}
    />
  );
}

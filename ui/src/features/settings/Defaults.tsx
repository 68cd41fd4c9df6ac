/** The form for the platform defaults. */
import { Button, Group, Stack } from "@mantine/core";
import { useState } from "react";
import { useEffectivePolicy } from "../../api/policies";
import { isProblem, violationsOf } from "../../api/problems";
import { loadSettings, type Settings } from "../../api/settings";
import { ConflictDialog } from "../../forms/ConflictDialog";
import { Findings } from "../../forms/findings";
import { type RequirementsDraft, readDraft, tryWriting, writeDraft } from "../../forms/requirements/drafts";
import { RequirementsFields } from "../../forms/requirements/RequirementsFields";
import { UnsavedChangesGuard } from "../../forms/UnsavedChangesGuard";
import { notify } from "../../shell/notices";
import { ProblemAlert } from "../../shell/Problem";
import { useSaveDefaults } from "./requests";

/** Edits the settings as they were when the form was opened. If someone else saves first, saving must fail. */
export function Defaults({ initial }: { initial: Settings }) {
  const [base, setBase] = useState(initial);
  const [draft, setDraft] = useState(() => readDraft(initial.defaults, "policy"));
  const saving = useSaveDefaults();
  const { body, errors } = tryWriting("defaults", () => writeDraft(draft));
  const isConflict = isProblem(saving.error, "changed");
  const isDirty = JSON.stringify(draft) !== JSON.stringify(readDraft(base.defaults, "policy"));
  const reset = (settings: Settings) => {
    setBase(settings);
    setDraft(readDraft(settings.defaults, "policy"));
    saving.reset();
  };
  const save = (over: Settings) => {
    if (!body) return;
    const done = {
      onSuccess: (saved: Settings) => {
        notify("Saved defaults");
        reset(saved);
      },
    };
    saving.mutate({ base: over, defaults: body }, done);
  };
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        save(base);
      }}
    >
      <UnsavedChangesGuard isDirty={isDirty} />
      <Stack>
        <Findings findings={[...errors, ...violationsOf(saving.error)]}>
          <Fields
            draft={draft}
            onChange={(next) => {
              setDraft(next);
              if (saving.error) saving.reset();
            }}
          />
        </Findings>
        {isConflict && body && (
          <ConflictDialog
            load={loadSettings}
            baseRevision={base.revision}
            compare={(theirs) => ({
              theirs: writeDraft(readDraft(theirs.defaults, "policy")),
              mine: body,
            })}
            onKeepEditing={saving.reset}
            onTakeTheirs={reset}
            onSaveMine={(theirs) => {
              setBase(theirs);
              save(theirs);
            }}
          />
        )}
        {!isConflict && violationsOf(saving.error).length === 0 && <ProblemAlert error={saving.error} />}
        <Group justify="flex-end">
          <Button variant="default" disabled={!isDirty} onClick={() => reset(base)}>
            Discard changes
          </Button>
          <Button type="submit" loading={saving.isPending} disabled={!isDirty || isConflict}>
            Save defaults
          </Button>
        </Group>
      </Stack>
    </form>
  );
}

interface FieldsProps {
  draft: RequirementsDraft;
  onChange: (draft: RequirementsDraft) => void;
}

function Fields({ draft, onChange }: FieldsProps) {
  const policy = useEffectivePolicy("platform");
  return (
    <RequirementsFields
      path="defaults"
      profiles={{ scope: "platform" }}
      value={draft}
      onChange={onChange}
      mayLimitGpuMemory={policy.data?.switches.gpu_memory_limits?.value === true}
    />
  );
}

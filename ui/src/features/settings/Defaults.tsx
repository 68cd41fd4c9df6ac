/** The form of the platform's defaults, for administrators. */
import { Button, Group, Stack } from "@mantine/core";
import { useState } from "react";
import { useEffectivePolicy } from "../../api/policies";
import { isProblem, violationsOf } from "../../api/problems";
import { ConflictDialog } from "../../forms/ConflictDialog";
import { Findings } from "../../forms/findings";
import { type RequirementsDraft, readDraft, tryWriting, writeDraft } from "../../forms/requirements/drafts";
import { RequirementsFields } from "../../forms/requirements/RequirementsFields";
import { UnsavedChangesGuard } from "../../forms/UnsavedChangesGuard";
import { notify } from "../../shell/notices";
import { ProblemAlert } from "../../shell/Problem";
import { loadSettings, type Settings, useSaveDefaults } from "./requests";

/** What was read first stays what is edited, whatever others save meanwhile: saving must then be refused. */
export function Defaults({ first }: { first: Settings }) {
  const [read, setRead] = useState(first);
  const [draft, setDraft] = useState(() => readDraft(first.defaults, "policy"));
  const saving = useSaveDefaults();
  const { written, mistakes } = tryWriting("defaults", () => writeDraft(draft));
  const isConflict = isProblem(saving.error, "changed");
  const isDirty = JSON.stringify(draft) !== JSON.stringify(readDraft(read.defaults, "policy"));
  const take = (settings: Settings) => {
    setRead(settings);
    setDraft(readDraft(settings.defaults, "policy"));
    saving.reset();
  };
  const save = (over: Settings) => {
    if (!written) return;
    const done = {
      onSuccess: (saved: Settings) => {
        notify("Saved the defaults");
        take(saved);
      },
    };
    saving.mutate({ read: over, defaults: written }, done);
  };
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        save(read);
      }}
    >
      <UnsavedChangesGuard isDirty={isDirty} />
      <Stack>
        <Findings findings={[...mistakes, ...violationsOf(saving.error)]}>
          <Fields
            draft={draft}
            onChange={(next) => {
              setDraft(next);
              if (saving.error) saving.reset();
            }}
          />
        </Findings>
        {isConflict && written && (
          <ConflictDialog
            load={loadSettings}
            baseRevision={read.revision}
            compare={(theirs) => ({
              theirs: writeDraft(readDraft(theirs.defaults, "policy")),
              mine: written,
            })}
            onKeepEditing={saving.reset}
            onTakeTheirs={take}
            onSaveMine={(theirs) => {
              setRead(theirs);
              save(theirs);
            }}
          />
        )}
        {!isConflict && violationsOf(saving.error).length === 0 && <ProblemAlert error={saving.error} />}
        <Group justify="flex-end">
          <Button variant="default" disabled={!isDirty} onClick={() => take(read)}>
            Undo changes
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

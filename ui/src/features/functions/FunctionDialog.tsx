/** Creates or edits a function: Python code, a command or a container image. */
import { Group, Input, SegmentedControl, Select } from "@mantine/core";
import { useState } from "react";
import { useOwnProjects } from "../../api/currentUser";
import { type Finding, isProblem } from "../../api/problems";
import { splitScope } from "../../api/scopes";
import { FormDialog } from "../../forms/FormDialog";
import { useFinding } from "../../forms/findings";
import { TextField } from "../../forms/TextField";
import { ConfirmDialog } from "../../shell/ConfirmDialog";
import { Dialog } from "../../shell/Dialog";
import { Loading } from "../../shell/Loading";
import { notify } from "../../shell/notices";
import { ProblemAlert } from "../../shell/Problem";
import { findMistakes, readDraft, SOURCE_TYPES, type SourceType, writeFunction } from "./drafts";
import { FunctionConflictDialog } from "./FunctionConflictDialog";
import { FIELDS, FunctionFields } from "./FunctionFields";
import { NameTakenMessage } from "./NameTakenMessage";
import { type Code, type FunctionRecord, useCode, useSaveFunction } from "./requests";

interface Props {
  /** The project of a new function. If missing, the form has a field for the project. */
  project?: string;
  /** The function to edit. If missing, the dialog creates a function. */
  original?: FunctionRecord;
  onClose: () => void;
  onSaved: (name: string, project: string) => void;
}

export function FunctionDialog({ original, ...props }: Props) {
  if (!original) return <FunctionForm {...props} />;
  return <EditDialog {...props} original={original} />;
}

function EditDialog({ original, ...props }: Props & { original: FunctionRecord }) {
  // The version from when the dialog opened, because the page behind it keeps refreshing.
  const [snapshot] = useState(original);
  const code = useCode(snapshot);
  if (code.data !== undefined) return <FunctionForm {...props} original={snapshot} code={code.data} />;
  return (
    <Dialog title={`Edit ${original.name}`} onClose={props.onClose} size="xl">
      {code.error ? (
        <ProblemAlert
          error={code.error}
          title="Could not load the code"
          onRetry={() => void code.refetch()}
        />
      ) : (
        <Loading />
      )}
    </Dialog>
  );
}

function FunctionForm({
  project: fixedProject,
  original,
  code,
  onClose,
  onSaved,
}: Props & { code?: Code | null }) {
  // The version that the form edits. Saving must fail if someone else has changed the function since then.
  const [base, setBase] = useState(original);
  const [initialDraft, setInitialDraft] = useState(() => readDraft(original, code));
  const [draft, setDraft] = useState(initialDraft);
  const [name, setName] = useState(original?.name ?? "");
  const [selectedProject, setSelectedProject] = useState<string | null>(null);
  const [isLeaving, setLeaving] = useState(false);
  const [mistakes, setMistakes] = useState<Finding[]>([]);
  const projects = useOwnProjects();
  const saving = useSaveFunction();
  const project = base
    ? splitScope(base.scope).name
    : (fixedProject ?? selectedProject ?? projects?.[0] ?? "");
  const isNameTaken = !base && isProblem(saving.error, "revision_missing");
  const isConflict = base !== undefined && isProblem(saving.error, "changed");
  const isDirty = JSON.stringify(draft) !== JSON.stringify(initialDraft);

  const save = (latest = base) => {
    const errors = findMistakes(name.trim(), draft);
    setMistakes(errors);
    if (errors.length > 0) return;
    const content = writeFunction(draft, latest);
    saving.mutate(
      { project, name: name.trim(), content, original: latest },
      {
        onSuccess: () => {
          notify(`Saved function ${name.trim()}`);
          onSaved(name.trim(), project);
        },
      },
    );
  };
  return (
    <>
      <FormDialog
        title={base ? `Edit ${base.name}` : "New function"}
        submitLabel={base ? "Save" : "Create function"}
        size="xl"
        fields={["name", ...FIELDS[draft.sourceType]]}
        findings={mistakes}
        // These errors have their own message or dialog.
        change={isNameTaken || isConflict || mistakes.length > 0 ? { ...saving, error: null } : saving}
        isIncomplete={project === ""}
        onClose={() => (isDirty ? setLeaving(true) : onClose())}
        onSubmit={() => save()}
      >
        {!base && (
          <Group grow align="flex-start">
            <TextField
              label="Name"
              description="Used to reference it in runs"
              data-autofocus
              spellCheck={false}
              value={name}
              onChange={setName}
              path="name"
            />
            {!fixedProject && (
              <ProjectSelect projects={projects ?? []} value={project} onChange={setSelectedProject} />
            )}
          </Group>
        )}
        {isNameTaken && <NameTakenMessage project={project} name={name.trim()} />}
        <SourceTypeControl
          value={draft.sourceType}
          onChange={(sourceType) => setDraft({ ...draft, sourceType })}
        />
        <FunctionFields draft={draft} onChange={setDraft} isNew={!base} />
      </FormDialog>
      {isConflict && (
        <FunctionConflictDialog
          original={base}
          draft={draft}
          onKeepEditing={saving.reset}
          onTakeTheirs={(theirs, theirDraft) => {
            setBase(theirs);
            setInitialDraft(theirDraft);
            setDraft(theirDraft);
            saving.reset();
          }}
          onSaveMine={(theirs) => {
            setBase(theirs);
            save(theirs);
          }}
        />
      )}
      {isLeaving && (
        <ConfirmDialog
          title="Leave without saving?"
          submitLabel="Leave"
          onClose={() => setLeaving(false)}
          onConfirm={onClose}
        >
          Your changes will be lost.
        </ConfirmDialog>
      )}
    </>
  );
}

interface ProjectProps {
  projects: string[];
  value: string;
  onChange: (project: string | null) => void;
}

function ProjectSelect({ projects, value, onChange }: ProjectProps) {
  return (
    <Select
      label="Project"
      description="Members of this project can run the function"
      data={projects}
      value={value || null}
      searchable
      onChange={onChange}
    />
  );
}

function SourceTypeControl({
  value,
  onChange,
}: {
  value: SourceType;
  onChange: (value: SourceType) => void;
}) {
  const finding = useFinding();
  return (
    <Input.Wrapper label="Kind" labelElement="div" error={finding("kind")}>
      <SegmentedControl
        mt={4}
        fullWidth
        aria-label="Kind"
        data={SOURCE_TYPES}
        value={value}
        onChange={(next) => onChange(next as SourceType)}
      />
    </Input.Wrapper>
  );
}

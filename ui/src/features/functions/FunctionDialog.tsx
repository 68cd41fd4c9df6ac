/** A new function, or another version of one: code, a command, or an image. */
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
import { FORMS, type Form, findMistakes, readDraft, writeFunction } from "./drafts";
import { FIELDS, FunctionFields } from "./FunctionFields";
import { Overtaken } from "./Overtaken";
import { type Code, type FunctionRecord, useCode, useSaveFunction } from "./requests";
import { Taken } from "./Taken";

interface Props {
  /** Where it will be; left out, the form asks. */
  project?: string;
  /** The one to edit; left out, a new one is named. */
  read?: FunctionRecord;
  onClose: () => void;
  onSaved: (name: string, project: string) => void;
}

export function FunctionDialog({ read, ...props }: Props) {
  if (!read) return <FunctionForm {...props} />;
  return <WithCode {...props} read={read} />;
}

function WithCode({ read, ...props }: Props & { read: FunctionRecord }) {
  // As it was when the dialog opened: what is behind it is read again and again.
  const [began] = useState(read);
  const code = useCode(began);
  if (code.data !== undefined) return <FunctionForm {...props} read={began} code={code.data} />;
  return (
    <Dialog title={`Edit ${read.name}`} onClose={props.onClose} size="xl">
      {code.error ? (
        <ProblemAlert
          error={code.error}
          title="Its code cannot be read"
          onRetry={() => void code.refetch()}
        />
      ) : (
        <Loading />
      )}
    </Dialog>
  );
}

function FunctionForm({
  project: fixed,
  read: began,
  code,
  onClose,
  onSaved,
}: Props & { code?: Code | null }) {
  const [read, setRead] = useState(began);
  const [first, setFirst] = useState(() => readDraft(began, code));
  const [draft, setDraft] = useState(first);
  const [name, setName] = useState(began?.name ?? "");
  const [chosen, setChosen] = useState<string | null>(null);
  const [isLeaving, setLeaving] = useState(false);
  const [mistakes, setMistakes] = useState<Finding[]>([]);
  const projects = useOwnProjects();
  const saving = useSaveFunction();
  const project = read ? splitScope(read.scope).name : (fixed ?? chosen ?? projects?.[0] ?? "");
  const isTaken = !read && isProblem(saving.error, "revision_missing");
  const isOvertaken = read !== undefined && isProblem(saving.error, "changed");
  const isDirty = JSON.stringify(draft) !== JSON.stringify(first);

  const save = (over = read) => {
    const wrong = findMistakes(name.trim(), draft);
    setMistakes(wrong);
    if (wrong.length > 0) return;
    const content = writeFunction(draft, over);
    saving.mutate(
      { project, name: name.trim(), content, read: over },
      {
        onSuccess: () => {
          notify(`Saved the function ${name.trim()}`);
          onSaved(name.trim(), project);
        },
      },
    );
  };
  return (
    <>
      <FormDialog
        title={read ? `Edit ${read.name}` : "New function"}
        submitLabel={read ? "Save" : "Create function"}
        size="xl"
        fields={["name", ...FIELDS[draft.form]]}
        findings={mistakes}
        change={isTaken || isOvertaken || mistakes.length > 0 ? { ...saving, error: null } : saving}
        isIncomplete={project === ""}
        onClose={() => (isDirty ? setLeaving(true) : onClose())}
        onSubmit={() => save()}
      >
        {!read && (
          <Group grow align="flex-start">
            <TextField
              label="Name"
              description="What runs call it"
              data-autofocus
              spellCheck={false}
              value={name}
              onChange={setName}
              path="name"
            />
            {!fixed && <ProjectSelect projects={projects ?? []} value={project} onChange={setChosen} />}
          </Group>
        )}
        {isTaken && <Taken project={project} name={name.trim()} />}
        <FormSegments value={draft.form} onChange={(form) => setDraft({ ...draft, form })} />
        <FunctionFields draft={draft} onChange={setDraft} isNew={!read} />
      </FormDialog>
      {isOvertaken && (
        <Overtaken
          read={read}
          draft={draft}
          onKeepEditing={saving.reset}
          onTakeTheirs={(theirs, theirDraft) => {
            setRead(theirs);
            setFirst(theirDraft);
            setDraft(theirDraft);
            saving.reset();
          }}
          onSaveMine={(theirs) => {
            setRead(theirs);
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
          What you changed here is not saved.
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
      description="Whose members can run it"
      data={projects}
      value={value || null}
      allowDeselect={false}
      searchable
      onChange={onChange}
    />
  );
}

function FormSegments({ value, onChange }: { value: Form; onChange: (form: Form) => void }) {
  const finding = useFinding();
  return (
    <Input.Wrapper label="What it is" labelElement="div" error={finding("kind")}>
      <SegmentedControl
        mt={4}
        fullWidth
        aria-label="What it is"
        data={FORMS}
        value={value}
        onChange={(form) => onChange(form as Form)}
      />
    </Input.Wrapper>
  );
}

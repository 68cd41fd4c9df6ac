/** Dialogs to rename, move and delete a scope. */
import { Input, Paper, Text } from "@mantine/core";
import { useState } from "react";
import { useMay } from "../../api/currentUser";
import type { Scope } from "../../api/scopes";
import { FormDialog } from "../../forms/FormDialog";
import { useFinding } from "../../forms/findings";
import { TextField } from "../../forms/TextField";
import { SearchableTree } from "../../scopes/SearchableTree";
import { ConfirmDialog } from "../../shell/ConfirmDialog";
import { notify } from "../../shell/notices";
import { isAllowedBelow, parentsFor } from "./kinds";
import { useDeleteScope, useEditScope, useMakeDefault } from "./requests";

interface Props {
  record: Scope;
  scopes: Scope[];
  onClose: () => void;
  onDone: (after?: Scope) => void;
}

export function RenameDialog({ record, onClose, onDone }: Props) {
  const [name, setName] = useState(record.name);
  const editing = useEditScope(record, (after) => {
    notify(`Renamed ${record.name} to ${after?.name}`);
    onDone(after);
  });
  return (
    <FormDialog
      title={`Rename ${record.name}`}
      submitLabel="Rename"
      fields={["name"]}
      change={editing}
      onClose={onClose}
      onSubmit={() => editing.mutate({ change: { name: name.trim() } })}
    >
      <NameInput value={name} onChange={setName} description="Update scripts that use the old name." />
    </FormDialog>
  );
}

export function MoveDialog({ record, scopes, onClose, onDone }: Props) {
  const [parent, setParent] = useState<string | null>(record.parent);
  const may = useMay();
  const editing = useEditScope(record, (after) => {
    notify(`Moved ${record.name} to ${after?.parent}`);
    onDone(after);
  });
  const parents = scopes.filter((other) => isAllowedBelow(record.kind, other.kind));
  const choices = parentsFor(record.kind, scopes);
  return (
    <FormDialog
      title={`Move ${record.name}`}
      submitLabel="Move"
      fields={["parent"]}
      change={editing}
      isIncomplete={parent === record.parent}
      onClose={onClose}
      onSubmit={() => editing.mutate({ change: { parent: parent ?? undefined } })}
    >
      <Text size="sm">
        Everything below it moves too. The new parent's policies, quotas and compute resources will apply.
      </Text>
      <ParentField>
        <SearchableTree
          label="New parent"
          scopes={parents}
          marked={parent}
          onChoose={setParent}
          mayChoose={(other) => may("admin", other.scope) && choices.includes(other)}
        />
      </ParentField>
    </FormDialog>
  );
}

export function DeleteDialog({ record, onClose, onDone }: Props) {
  const deleting = useDeleteScope(record, () => {
    notify(`Deleted ${record.scope}`);
    onDone();
  });
  return (
    <ConfirmDialog
      title={`Delete ${record.name}?`}
      submitLabel="Delete"
      change={deleting}
      onClose={onClose}
      onConfirm={() => deleting.mutate()}
    >
      The {record.kind} <b>{record.name}</b> will be deleted permanently
      {record.kind === "project"
        ? ", along with its functions and ended runs. Its other contents must be removed first."
        : ". It must be empty."}
    </ConfirmDialog>
  );
}

export function MakeDefaultDialog({ record, onClose }: Pick<Props, "record" | "onClose">) {
  const saving = useMakeDefault();
  const done = () => {
    notify(`${record.name} is the default cluster`);
    onClose();
  };
  return (
    <ConfirmDialog
      title={`Make ${record.name} the default cluster?`}
      submitLabel="Make default"
      isHarmless
      change={saving}
      onClose={onClose}
      onConfirm={() => saving.mutate(record.scope, { onSuccess: done })}
    >
      New departments and projects will be created in it. Existing ones are not moved.
    </ConfirmDialog>
  );
}

interface NameProps {
  value: string;
  onChange: (name: string) => void;
  description?: string;
}

export function NameInput({ value, onChange, description }: NameProps) {
  return (
    <TextField
      label="Name"
      description={description}
      required
      data-autofocus
      value={value}
      onChange={onChange}
      path="name"
    />
  );
}

function ParentField({ children }: { children: React.ReactNode }) {
  const finding = useFinding();
  return (
    <Input.Wrapper label="New parent" labelElement="div" error={finding("parent")}>
      <Paper withBorder mt={4} p={6}>
        {children}
      </Paper>
    </Input.Wrapper>
  );
}

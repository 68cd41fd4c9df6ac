/** Renames, moves or deletes a place. */
import { Input, Paper, Text } from "@mantine/core";
import { useState } from "react";
import { useMay } from "../../api/people";
import type { Place } from "../../api/places";
import { FormDialog } from "../../forms/FormDialog";
import { useFinding } from "../../forms/findings";
import { TextField } from "../../forms/TextField";
import { PlaceTree } from "../../scopes/PlaceTree";
import { ConfirmDialog } from "../../shell/ConfirmDialog";
import { notify } from "../../shell/notices";
import { mayStandBelow } from "./kinds";
import { useDeletePlace, useEditPlace } from "./requests";

interface Props {
  place: Place;
  places: Place[];
  onClose: () => void;
  onDone: (after?: Place) => void;
}

export function RenameDialog({ place, onClose, onDone }: Props) {
  const [name, setName] = useState(place.name);
  const editing = useEditPlace(place, (after) => {
    notify(`${place.name} is called ${after?.name} now`);
    onDone(after);
  });
  return (
    <FormDialog
      title={`Rename ${place.name}`}
      deed="Rename"
      fields={["name"]}
      change={editing}
      onClose={onClose}
      onSubmit={() => editing.mutate({ change: { name: name.trim() } })}
    >
      <NameInput
        value={name}
        onChange={setName}
        description="Everything in it and below it follows. Scripts that use the old name do not."
      />
    </FormDialog>
  );
}

export function MoveDialog({ place, places, onClose, onDone }: Props) {
  const [parent, setParent] = useState<string | null>(place.parent);
  const may = useMay();
  const editing = useEditPlace(place, (after) => {
    notify(`Moved ${place.name} below ${after?.parent}`);
    onDone(after);
  });
  const parents = places.filter((other) => mayStandBelow(place.kind, other.kind));
  return (
    <FormDialog
      title={`Move ${place.name}`}
      deed="Move"
      fields={["parent"]}
      change={editing}
      isIncomplete={parent === place.parent}
      onClose={onClose}
      onSubmit={() => editing.mutate({ change: { parent: parent ?? undefined } })}
    >
      <Text size="sm">
        Everything below it moves along. It leaves the policies, quotas and compute resources of where it is
        now, and gets those of its new place.
      </Text>
      <ParentField>
        <PlaceTree
          label="New parent"
          places={parents}
          marked={parent}
          onChoose={setParent}
          mayChoose={(other) => may("admin", other.scope)}
        />
      </ParentField>
    </FormDialog>
  );
}

export function DeleteDialog({ place, onClose, onDone }: Props) {
  const deleting = useDeletePlace(place, () => {
    notify(`Deleted ${place.scope}`);
    onDone();
  });
  return (
    <ConfirmDialog
      title={`Delete ${place.name}?`}
      deed="Delete"
      change={deleting}
      onClose={onClose}
      onConfirm={() => deleting.mutate()}
    >
      The {place.kind} <b>{place.name}</b> goes for good
      {place.kind === "project" && ", and its finished runs with it"}. Only one in which nothing lives can be
      deleted.
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

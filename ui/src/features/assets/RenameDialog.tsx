import { useState } from "react";
import { FormDialog } from "../../forms/FormDialog";
import { TextArea, TextField } from "../../forms/TextField";
import { withNotice } from "../../shell/notices";
import { type Asset, type AssetKind, useEdit } from "./requests";

interface Props {
  kind: AssetKind;
  item: Asset;
  onClose: () => void;
}

/** Edits the name and description. References are updated to the new name; existing runs keep their settings. */
export function RenameDialog({ kind, item, onClose }: Props) {
  const editing = useEdit(kind);
  // The version from when the dialog opened, because the list behind it keeps refreshing.
  const [asset] = useState(item);
  const [name, setName] = useState(item.name);
  const [description, setDescription] = useState(item.description);
  const change = { name: name.trim(), description };
  return (
    <FormDialog
      title={`Rename ${item.name}`}
      submitLabel="Save"
      fields={["name", "description"]}
      change={editing}
      onClose={onClose}
      onSubmit={() => editing.mutate({ asset, change }, withNotice(`Saved ${change.name}`, onClose))}
    >
      <TextField label="Name" data-autofocus value={name} onChange={setName} path="name" />
      <TextArea
        label="Description"
        autosize
        minRows={2}
        value={description}
        onChange={setDescription}
        path="description"
      />
    </FormDialog>
  );
}

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

/** A new name and description. What names it follows; runs keep what they were planned with. */
export function RenameDialog({ kind, item, onClose }: Props) {
  const editing = useEdit(kind);
  // As it was when the dialog opened: the list behind it is read again and again.
  const [read] = useState(item);
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
      onSubmit={() => editing.mutate({ read, change }, withNotice(`Saved ${change.name}`, onClose))}
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

import { ConfirmDialog } from "../../shell/ConfirmDialog";
import { withNotice } from "../../shell/notices";
import { type Asset, type AssetKind, useDelete } from "./requests";

interface Props {
  kind: AssetKind;
  item: Asset;
  onClose: () => void;
  onDeleted: () => void;
}

export function DeleteDialog({ kind, item, onClose, onDeleted }: Props) {
  const deleting = useDelete(kind);
  return (
    <ConfirmDialog
      title={`Delete ${item.name}?`}
      submitLabel="Delete"
      change={deleting}
      onClose={onClose}
      onConfirm={() => deleting.mutate(item, withNotice(`Deleted ${item.name}`, onDeleted))}
    >
      The {kind.noun} <b>{item.name}</b> will no longer be available. Past runs keep their settings. To keep
      it, archive it instead.
    </ConfirmDialog>
  );
}

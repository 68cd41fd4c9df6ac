import { DeleteDialog } from "../../shell/DeleteDialog";
import { type Asset, type AssetKind, useDelete } from "./requests";

interface Props {
  kind: AssetKind;
  item: Asset;
  onClose: () => void;
  onDeleted: () => void;
}

export function DeleteAssetDialog({ kind, item, onClose, onDeleted }: Props) {
  const deleting = useDelete(kind);
  return (
    <DeleteDialog name={item.name} target={item} deleting={deleting} onClose={onClose} onDeleted={onDeleted}>
      The {kind.noun} <b>{item.name}</b> will no longer be available. Past runs keep their settings. To keep
      it, archive it instead.
    </DeleteDialog>
  );
}

import { ConfirmDialog } from "../../shell/ConfirmDialog";
import { withNotice } from "../../shell/notices";
import { type FunctionRecord, useDeleteFunction } from "./requests";

interface Props {
  item: FunctionRecord;
  onClose: () => void;
  onDeleted: () => void;
}

export function DeleteFunctionDialog({ item, onClose, onDeleted }: Props) {
  const deleting = useDeleteFunction();
  return (
    <ConfirmDialog
      title={`Delete ${item.name}?`}
      submitLabel="Delete"
      change={deleting}
      onClose={onClose}
      onConfirm={() => deleting.mutate(item, withNotice(`Deleted function ${item.name}`, onDeleted))}
    >
      It will no longer be available in {item.scope}. Existing runs keep their code.
    </ConfirmDialog>
  );
}

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
      onConfirm={() => deleting.mutate(item, withNotice(`Deleted the function ${item.name}`, onDeleted))}
    >
      Nobody in {item.scope} can run it by its name any more. Its runs stay, with the code that they had.
    </ConfirmDialog>
  );
}

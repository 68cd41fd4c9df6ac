import { DeleteDialog } from "../../shell/DeleteDialog";
import { type FunctionRecord, useDeleteFunction } from "./requests";

interface Props {
  item: FunctionRecord;
  onClose: () => void;
  onDeleted: () => void;
}

export function DeleteFunctionDialog({ item, onClose, onDeleted }: Props) {
  const deleting = useDeleteFunction();
  return (
    <DeleteDialog
      name={item.name}
      noticeName={`function ${item.name}`}
      target={item}
      deleting={deleting}
      onClose={onClose}
      onDeleted={onDeleted}
    >
      It will no longer be available in {item.scope}. Existing runs keep their code.
    </DeleteDialog>
  );
}

import { DeleteDialog } from "../../shell/DeleteDialog";
import { type PolicyRecord, useDelete } from "./requests";

interface Props {
  policy: PolicyRecord;
  force: boolean;
  onClose: () => void;
  onDeleted: () => void;
}

export function DeletePolicyDialog({ policy, force, onClose, onDeleted }: Props) {
  const deleting = useDelete();
  return (
    <DeleteDialog
      name={`policy for ${policy.scope}`}
      target={{ scope: policy.scope, original: policy, force }}
      deleting={deleting}
      onClose={onClose}
      onDeleted={onDeleted}
    >
      This policy will no longer apply to <b>{policy.scope}</b> or anything in it. Policies of higher scopes
      still apply. Existing runs do not change.
    </DeleteDialog>
  );
}

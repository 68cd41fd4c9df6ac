import { ConfirmDialog } from "../../shell/ConfirmDialog";
import { withNotice } from "../../shell/notices";
import { type PolicyRecord, useDelete } from "./requests";

interface Props {
  policy: PolicyRecord;
  force: boolean;
  onClose: () => void;
  onDeleted: () => void;
}

export function DeleteDialog({ policy, force, onClose, onDeleted }: Props) {
  const deleting = useDelete();
  return (
    <ConfirmDialog
      title={`Delete policy for ${policy.scope}?`}
      submitLabel="Delete"
      change={deleting}
      onClose={onClose}
      onConfirm={() =>
        deleting.mutate(
          { scope: policy.scope, original: policy, force },
          withNotice(`Deleted policy for ${policy.scope}`, onDeleted),
        )
      }
    >
      This policy will no longer apply to <b>{policy.scope}</b> or anything in it. Policies of higher scopes
      still apply. Existing runs do not change.
    </ConfirmDialog>
  );
}

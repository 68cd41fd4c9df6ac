/** Asks for confirmation before an object is deleted, and shows a notice afterwards. */
import type { ReactNode } from "react";
import { ConfirmDialog } from "./ConfirmDialog";
import { withNotice } from "./notices";

interface Props<Target> {
  /** The name of the object in the title. */
  name: string;
  /** The name in the notice, if it differs. */
  noticeName?: string;
  /** What the mutation deletes. */
  target: Target;
  deleting: {
    isPending: boolean;
    error: unknown;
    mutate: (target: Target, options: { onSuccess: () => void }) => void;
  };
  /** What deleting it means for the user. */
  children: ReactNode;
  onClose: () => void;
  onDeleted: () => void;
}

export function DeleteDialog<Target>({
  name,
  noticeName = name,
  target,
  deleting,
  children,
  onClose,
  onDeleted,
}: Props<Target>) {
  return (
    <ConfirmDialog
      title={`Delete ${name}?`}
      submitLabel="Delete"
      change={deleting}
      onClose={onClose}
      onConfirm={() => deleting.mutate(target, withNotice(`Deleted ${noticeName}`, onDeleted))}
    >
      {children}
    </ConfirmDialog>
  );
}

/** A dialog that is mounted only while it is open. It restores the focus when it closes. */
import { Modal, type ModalProps } from "@mantine/core";
import { useRestoreFocus } from "./focus";

interface Props extends Omit<ModalProps, "opened"> {
  /** Prevents closing while a request is in progress. */
  isBusy?: boolean;
}

export function Dialog({ isBusy = false, onClose, ...modal }: Props) {
  useRestoreFocus();
  return <Modal opened onClose={isBusy ? () => {} : onClose} {...modal} />;
}

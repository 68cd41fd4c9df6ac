/** A dialog that is there only as long as it is open; afterwards the keyboard is where it was. */
import { Modal, type ModalProps } from "@mantine/core";
import { useFocusBack } from "./focus";

interface Props extends Omit<ModalProps, "opened"> {
  /** Something is under way, whose outcome must be seen. */
  isBusy?: boolean;
}

export function Dialog({ isBusy = false, onClose, ...modal }: Props) {
  useFocusBack();
  return <Modal opened onClose={isBusy ? () => {} : onClose} {...modal} />;
}

/** Buttons to run, edit or delete a function, for members of its project. */
import { Text } from "@mantine/core";
import { IconPencil, IconPlayerPlay } from "@tabler/icons-react";
import { useState } from "react";
import { useMay } from "../../api/currentUser";
import { splitScope } from "../../api/scopes";
import { ActionButton, ActionLink, DangerButton } from "../../shell/actions";
import { newRunAddress } from "../../shell/addresses";
import { DeleteFunctionDialog } from "./DeleteFunctionDialog";
import { FunctionDialog } from "./FunctionDialog";
import type { FunctionRecord } from "./requests";

interface Props {
  item: FunctionRecord;
  /** Called after deletion, for example to leave the function's page. */
  onDeleted?: () => void;
}

export function FunctionActions({ item, onDeleted }: Props) {
  const [dialog, setDialog] = useState<"edit" | "delete" | null>(null);
  const close = () => setDialog(null);
  if (!useMay()("member", item.scope)) {
    return (
      <Text size="xs" c="dimmed">
        Only members of {item.scope} can run this function.
      </Text>
    );
  }
  return (
    <>
      <ActionLink
        icon={IconPlayerPlay}
        href={newRunAddress({ project: splitScope(item.scope).name, function: item.name })}
      >
        Run
      </ActionLink>
      <ActionButton icon={IconPencil} onClick={() => setDialog("edit")}>
        Edit
      </ActionButton>
      <DangerButton onClick={() => setDialog("delete")}>Delete</DangerButton>
      {dialog === "edit" && <FunctionDialog original={item} onClose={close} onSaved={close} />}
      {dialog === "delete" && (
        <DeleteFunctionDialog
          item={item}
          onClose={close}
          onDeleted={() => {
            close();
            onDeleted?.();
          }}
        />
      )}
    </>
  );
}

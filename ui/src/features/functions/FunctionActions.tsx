/** What can be done to a function, by whoever may: run it, write another version of it, forget it. */
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
  /** What follows once it is forgotten: a page of it goes elsewhere. */
  onDeleted?: () => void;
}

export function FunctionActions({ item, onDeleted }: Props) {
  const [asked, setAsked] = useState<"edit" | "delete" | null>(null);
  const close = () => setAsked(null);
  if (!useMay()("member", item.scope)) {
    return (
      <Text size="xs" c="dimmed">
        Only members of {item.scope} run it
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
      <ActionButton icon={IconPencil} onClick={() => setAsked("edit")}>
        Edit
      </ActionButton>
      <DangerButton onClick={() => setAsked("delete")}>Delete</DangerButton>
      {asked === "edit" && <FunctionDialog read={item} onClose={close} onSaved={close} />}
      {asked === "delete" && (
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

/** Buttons for the actions that the user may perform on a compute resource or template. */
import { Text } from "@mantine/core";
import { IconArchive, IconArchiveOff, IconCopy, IconCursorText, IconPencil } from "@tabler/icons-react";
import { useLocation } from "wouter";
import { useIsEditor, useMay } from "../../api/currentUser";
import { ActionButton, DangerButton } from "../../shell/actions";
import { notify } from "../../shell/notices";
import { ProblemAlert } from "../../shell/Problem";
import { type Asset, type AssetKind, useRestore } from "./requests";

export type Action = "rename" | "archive" | "delete";

interface ItemProps {
  kind: AssetKind;
  item: Asset;
}

interface ActionProps extends ItemProps {
  onAction: (action: Action) => void;
}

export function Actions({ kind, item, onAction }: ActionProps) {
  const mayEdit = useMay()("editor", item.scope) && !item.managed_by;
  const mayCopy = useIsEditor();
  return (
    <>
      {mayEdit && <EditActions kind={kind} item={item} onAction={onAction} />}
      {!mayEdit && mayCopy && <CopyButton kind={kind} item={item} />}
      {!mayEdit && (
        <Text size="xs" c="dimmed">
          {item.managed_by
            ? `Managed by ${showManager(item.managed_by)}. Edit it there.`
            : `Only editors of ${item.scope} can change this ${kind.noun}.`}
        </Text>
      )}
    </>
  );
}

/** `fairlead apply` sets the manager to "files" by default. */
function showManager(manager: string): string {
  return manager === "files" ? "config files" : manager;
}

function EditActions({ kind, item, onAction }: ActionProps) {
  const restoring = useRestore(kind);
  return (
    <>
      <ProblemAlert error={restoring.error} />
      <ActionButton icon={IconCursorText} onClick={() => onAction("rename")}>
        Rename
      </ActionButton>
      <EditButton kind={kind} item={item} />
      <CopyButton kind={kind} item={item} />
      {item.archived ? (
        <ActionButton
          icon={IconArchiveOff}
          loading={restoring.isPending}
          onClick={() => restoring.mutate(item, { onSuccess: () => notify(`Restored ${item.name}`) })}
        >
          Restore
        </ActionButton>
      ) : (
        <ActionButton icon={IconArchive} onClick={() => onAction("archive")}>
          Archive
        </ActionButton>
      )}
      <DangerButton onClick={() => onAction("delete")}>Delete</DangerButton>
    </>
  );
}

export function EditButton({ kind, item }: ItemProps) {
  const [, navigate] = useLocation();
  return (
    <ActionButton icon={IconPencil} onClick={() => navigate(`${kind.path}/${item.name}/edit`)}>
      Edit
    </ActionButton>
  );
}

export function CopyButton({ kind, item }: ItemProps) {
  const [, navigate] = useLocation();
  return (
    <ActionButton icon={IconCopy} onClick={() => navigate(`${kind.path}/${item.name}/copy`)}>
      Copy & edit
    </ActionButton>
  );
}

/** What can be done to a compute resource or a template, by whoever may. */
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
  onAsk: (action: Action) => void;
}

export function Actions({ kind, item, onAsk }: ActionProps) {
  const mayEdit = useMay()("editor", item.scope) && !item.managed_by;
  const mayCopy = useIsEditor();
  return (
    <>
      {mayEdit && <Changes kind={kind} item={item} onAsk={onAsk} />}
      {!mayEdit && mayCopy && <CopyButton kind={kind} item={item} />}
      {!mayEdit && (
        <Text size="xs" c="dimmed">
          {item.managed_by
            ? `Managed by ${item.managed_by}: change it there`
            : `Only editors of ${item.scope} change it`}
        </Text>
      )}
    </>
  );
}

function Changes({ kind, item, onAsk }: ActionProps) {
  const restoring = useRestore(kind);
  return (
    <>
      <ProblemAlert error={restoring.error} />
      <ActionButton icon={IconCursorText} onClick={() => onAsk("rename")}>
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
        <ActionButton icon={IconArchive} onClick={() => onAsk("archive")}>
          Archive
        </ActionButton>
      )}
      <DangerButton onClick={() => onAsk("delete")}>Delete</DangerButton>
    </>
  );
}

export function EditButton({ kind, item }: ItemProps) {
  const [, go] = useLocation();
  return (
    <ActionButton icon={IconPencil} onClick={() => go(`${kind.path}/${item.name}/edit`)}>
      Edit
    </ActionButton>
  );
}

export function CopyButton({ kind, item }: ItemProps) {
  const [, go] = useLocation();
  return (
    <ActionButton icon={IconCopy} onClick={() => go(`${kind.path}/${item.name}/copy`)}>
      Copy & edit
    </ActionButton>
  );
}

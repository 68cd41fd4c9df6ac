/** Table of compute resources or templates, with actions for the selected row. */
import { Button } from "@mantine/core";
import { IconPlus } from "@tabler/icons-react";
import { useState } from "react";
import { Link } from "wouter";
import { useIsEditor } from "../../api/currentUser";
import { useList } from "../../api/lists";
import type { Column } from "../../table/columns";
import { useSelection } from "../../table/selection";
import { TablePage } from "../../table/TablePage";
import { useView } from "../../table/views";
import { type Action, Actions } from "./Actions";
import { ArchiveDialog } from "./ArchiveDialog";
import { DeleteAssetDialog } from "./DeleteAssetDialog";
import { RenameDialog } from "./RenameDialog";
import type { Asset, AssetKind } from "./requests";

interface Props {
  kind: AssetKind;
  title: string;
  about: string;
  columns: Column<Asset>[];
  emptyState: { title: string; hint: string };
}

export function AssetTable({ kind, columns, ...texts }: Props) {
  const view = useView(kind.nouns, columns, "name");
  const list = useList(kind.apiPath, view.query);
  const items = list.items as Asset[];
  const [dialog, setDialog] = useState<Action | null>(null);
  const { selected, select } = useSelection(items);
  const close = () => setDialog(null);
  return (
    <>
      <TablePage
        {...texts}
        nouns={kind.nouns}
        columns={columns}
        view={view}
        list={{ ...list, items }}
        nameOf={(item) => item.name}
        selected={selected}
        onSelect={(item) => {
          select(item);
          close();
        }}
        actions={<NewButton kind={kind} />}
        selection={selected && <Actions kind={kind} item={selected} onAction={setDialog} />}
      />
      {selected && dialog === "rename" && <RenameDialog kind={kind} item={selected} onClose={close} />}
      {selected && dialog === "archive" && <ArchiveDialog kind={kind} item={selected} onClose={close} />}
      {selected && dialog === "delete" && (
        <DeleteAssetDialog
          kind={kind}
          item={selected}
          onClose={close}
          onDeleted={() => {
            select(null);
            close();
          }}
        />
      )}
    </>
  );
}

function NewButton({ kind }: { kind: AssetKind }) {
  if (!useIsEditor()) return null;
  return (
    <Button component={Link} href={kind.newPath} leftSection={<IconPlus size={16} />}>
      New {kind.noun}
    </Button>
  );
}

/** The tokens page. */
import { Button } from "@mantine/core";
import { IconPlus } from "@tabler/icons-react";
import { useState } from "react";
import { useMay } from "../../api/currentUser";
import { useList } from "../../api/lists";
import { DangerButton } from "../../shell/actions";
import { useSelection } from "../../table/selection";
import { TablePage } from "../../table/TablePage";
import { useView } from "../../table/views";
import { COLUMNS } from "./columns";
import { NewTokenDialog } from "./NewTokenDialog";
import { RevokeDialog } from "./RevokeDialog";
import { TOKENS } from "./requests";

const TEXTS = {
  title: "Tokens",
  emptyState: {
    title: "No tokens yet",
    hint: "Programs and command-line tools use tokens to act on your behalf.",
  },
  nouns: "tokens",
};

export default function Tokens() {
  const isAdmin = useMay()("admin", "platform");
  const view = useView("tokens", COLUMNS, "-created_at");
  const list = useList(TOKENS, view.query);
  const [dialog, setDialog] = useState<"new" | "revoke" | null>(null);
  const { selected, select } = useSelection(list.items);
  const close = () => setDialog(null);
  return (
    <>
      <TablePage
        {...TEXTS}
        about={
          isAdmin
            ? "API tokens and browser sessions. As an administrator, you see everyone's."
            : "Your API tokens and browser sessions."
        }
        columns={COLUMNS}
        view={view}
        list={list}
        nameOf={(token) => token.name}
        selected={selected}
        onSelect={select}
        actions={
          <Button leftSection={<IconPlus size={16} />} onClick={() => setDialog("new")}>
            New token
          </Button>
        }
        selection={<DangerButton onClick={() => setDialog("revoke")}>Revoke</DangerButton>}
      />
      {dialog === "new" && <NewTokenDialog mayChooseUser={isAdmin} onClose={close} />}
      {dialog === "revoke" && selected && (
        <RevokeDialog
          token={selected}
          onClose={close}
          onRevoked={() => {
            select(null);
            close();
          }}
        />
      )}
    </>
  );
}

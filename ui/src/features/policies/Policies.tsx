import { Button } from "@mantine/core";
import { useDisclosure } from "@mantine/hooks";
import { IconPlus } from "@tabler/icons-react";
import { useIsEditor } from "../../api/currentUser";
import { useList } from "../../api/lists";
import { TablePage } from "../../table/TablePage";
import { useView } from "../../table/views";
import { COLUMNS } from "./columns";
import { NewPolicyDialog } from "./NewPolicyDialog";

export default function Policies() {
  const view = useView("policies", COLUMNS, "scope");
  const list = useList("/api/v1/policies", view.query);
  const [isDialogOpen, { open, close }] = useDisclosure();
  const isEditor = useIsEditor();
  return (
    <>
      <TablePage
        title="Policies"
        about="Rules for a scope and everything in it. Lower levels can tighten rules, not loosen them."
        nouns="policies"
        columns={COLUMNS}
        view={view}
        list={list}
        nameOf={(item) => item.scope}
        emptyState={{
          title: "No policies yet",
          hint: "Set limits, permissions and defaults for a scope.",
        }}
        actions={
          isEditor && (
            <Button leftSection={<IconPlus size={16} />} onClick={open}>
              New policy
            </Button>
          )
        }
      />
      {isDialogOpen && <NewPolicyDialog onClose={close} />}
    </>
  );
}

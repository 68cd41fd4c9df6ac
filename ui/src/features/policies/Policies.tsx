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
  const [isAsking, { open, close }] = useDisclosure();
  const isEditor = useIsEditor();
  return (
    <>
      <TablePage
        title="Policies"
        about="What is allowed, at a scope and everywhere below it. No rule can be loosened further down."
        nouns="policies"
        columns={COLUMNS}
        view={view}
        list={list}
        keyOf={(item) => item.id}
        nameOf={(item) => item.scope}
        none={{
          title: "No policies yet",
          hint: "Say at a scope how much runs may ask for, what they may do, and what they get where nobody says anything.",
        }}
        actions={
          isEditor && (
            <Button leftSection={<IconPlus size={16} />} onClick={open}>
              New policy
            </Button>
          )
        }
      />
      {isAsking && <NewPolicyDialog onClose={close} />}
    </>
  );
}

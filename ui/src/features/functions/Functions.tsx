/** Table of functions. */
import { Button } from "@mantine/core";
import { useDisclosure } from "@mantine/hooks";
import { IconPlus } from "@tabler/icons-react";
import { useState } from "react";
import { useOwnProjects } from "../../api/currentUser";
import { useList } from "../../api/lists";
import { functionAddress } from "../../shell/addresses";
import { useNavigate } from "../../shell/useNavigate";
import { TablePage } from "../../table/TablePage";
import { useView } from "../../table/views";
import { COLUMNS } from "./columns";
import { FunctionActions } from "./FunctionActions";
import { FunctionDialog } from "./FunctionDialog";
import { FUNCTIONS, type FunctionRecord } from "./requests";

export default function Functions() {
  const navigate = useNavigate();
  const view = useView("functions", COLUMNS, "name");
  const list = useList(FUNCTIONS, view.query);
  const items: FunctionRecord[] = list.items;
  const isMember = (useOwnProjects() ?? []).length > 0;
  const [isNew, { open, close }] = useDisclosure();
  const [selectedId, setSelectedId] = useState<string | null>(null);
  const selected = items.find((item) => item.id === selectedId) ?? null;
  return (
    <>
      <TablePage<FunctionRecord>
        title="Functions"
        about="Reusable code, commands and images. Functions submitted with a run are saved here too."
        nouns="functions"
        emptyState={{
          title: "No functions yet",
          hint: isMember
            ? "Create one here, or submit a run from Python or the command line."
            : "Functions from your projects will appear here.",
        }}
        columns={COLUMNS}
        view={view}
        list={{ ...list, items }}
        keyOf={(item) => item.id}
        nameOf={(item) => item.name}
        selected={selected}
        onSelect={isMember ? (item) => setSelectedId(item?.id ?? null) : undefined}
        actions={
          isMember && (
            <Button leftSection={<IconPlus size={16} />} onClick={open}>
              New function
            </Button>
          )
        }
        // A new key closes the open dialog when a different function is selected.
        selection={selected && <FunctionActions key={selected.id} item={selected} />}
      />
      {isNew && (
        <FunctionDialog
          onClose={close}
          onSaved={(name, project) => {
            close();
            navigate(functionAddress(project, name));
          }}
        />
      )}
    </>
  );
}

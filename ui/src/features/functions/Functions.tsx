/** Table of functions. */
import { Button } from "@mantine/core";
import { useDisclosure } from "@mantine/hooks";
import { IconPlus } from "@tabler/icons-react";
import { useOwnProjects } from "../../api/currentUser";
import { useList } from "../../api/lists";
import { functionAddress } from "../../shell/addresses";
import { useNavigate } from "../../shell/useNavigate";
import { useSelection } from "../../table/selection";
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
  const { selected, select } = useSelection(items);
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
        nameOf={(item) => item.name}
        selected={selected}
        onSelect={isMember ? select : undefined}
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

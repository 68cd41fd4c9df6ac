/** The names of a project's secrets, with what can be done to the one that is selected. */
import { Button, Group, Select } from "@mantine/core";
import { IconFolder, IconPlus, IconRefresh } from "@tabler/icons-react";
import { useState } from "react";
import { useMay } from "../../api/currentUser";
import { useList } from "../../api/lists";
import { ActionButton, DangerButton } from "../../shell/actions";
import { TablePage } from "../../table/TablePage";
import { useView } from "../../table/views";
import { COLUMNS } from "./columns";
import { DeleteDialog } from "./DeleteDialog";
import { SECRETS, type Secret } from "./requests";
import { SetDialog } from "./SetDialog";

type Dialog = "set" | "replace" | "delete" | null;

interface Props {
  project: string;
  projects: string[];
  onChoose: (project: string) => void;
}

export function SecretTable({ project, projects, onChoose }: Props) {
  const view = useView("secrets", COLUMNS, "name");
  const list = useList(SECRETS, view.query, { project });
  const may = useMay();
  const isMember = may("member", `project/${project}`);
  const [selectedId, setSelectedId] = useState<string | null>(null);
  const [dialog, setDialog] = useState<Dialog>(null);
  const selected = list.items.find((item) => item.id === selectedId) ?? null;
  const close = () => setDialog(null);
  return (
    <>
      <TablePage<Secret>
        title="Secrets"
        about="Values that runs need and nobody reads. A run with secrets: [HF_TOKEN] gets it as the variable HF_TOKEN."
        nouns="secrets"
        none={{
          title: `${project} has no secrets yet`,
          hint: "Set one, such as the token of a model hub. A run that names it gets its value, and nobody can read it here again.",
        }}
        columns={COLUMNS}
        view={view}
        list={list}
        keyOf={(item) => item.id}
        nameOf={(item) => item.name}
        selected={selected}
        onSelect={isMember ? (item) => setSelectedId(item?.id ?? null) : undefined}
        actions={
          <Group gap="xs">
            <Select
              aria-label="Project"
              leftSection={<IconFolder size={16} stroke={1.6} />}
              data={projects.includes(project) ? projects : [project, ...projects]}
              value={project}
              allowDeselect={false}
              searchable
              onChange={(next) => next && onChoose(next)}
            />
            {isMember && (
              <Button leftSection={<IconPlus size={16} />} onClick={() => setDialog("set")}>
                Set a secret
              </Button>
            )}
          </Group>
        }
        selection={<Actions onAsk={setDialog} />}
      />
      {dialog === "set" && <SetDialog project={project} onClose={close} />}
      {selected && dialog === "replace" && <SetDialog project={project} read={selected} onClose={close} />}
      {selected && dialog === "delete" && (
        <DeleteDialog project={project} secret={selected} onClose={close} />
      )}
    </>
  );
}

function Actions({ onAsk }: { onAsk: (dialog: Dialog) => void }) {
  return (
    <>
      <ActionButton icon={IconRefresh} onClick={() => onAsk("replace")}>
        Replace value
      </ActionButton>
      <DangerButton onClick={() => onAsk("delete")}>Delete</DangerButton>
    </>
  );
}

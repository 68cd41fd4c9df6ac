/** Table of a project's secrets, with actions for the selected one. */
import { Button, Group, Select } from "@mantine/core";
import { IconFolder, IconPlus, IconRefresh } from "@tabler/icons-react";
import { useState } from "react";
import { useMay } from "../../api/currentUser";
import { useList } from "../../api/lists";
import { ActionButton, DangerButton } from "../../shell/actions";
import { useSelection } from "../../table/selection";
import { TablePage } from "../../table/TablePage";
import { useView } from "../../table/views";
import { COLUMNS } from "./columns";
import { DeleteSecretDialog } from "./DeleteSecretDialog";
import { SECRETS, type Secret } from "./requests";
import { SecretDialog } from "./SecretDialog";

type Dialog = "add" | "replace" | "delete" | null;

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
  const [dialog, setDialog] = useState<Dialog>(null);
  const { selected, select } = useSelection(list.items);
  const close = () => setDialog(null);
  return (
    <>
      <TablePage<Secret>
        title="Secrets"
        about="Write-only values passed to runs as environment variables."
        nouns="secrets"
        emptyState={{
          title: `${project} has no secrets yet`,
          hint: "Add one, such as a model hub token, and reference it in runs by name.",
        }}
        columns={COLUMNS}
        view={view}
        list={list}
        nameOf={(item) => item.name}
        selected={selected}
        onSelect={isMember ? select : undefined}
        actions={
          <Group gap="xs">
            <Select
              aria-label="Project"
              leftSection={<IconFolder size={16} stroke={1.6} />}
              data={projects.includes(project) ? projects : [project, ...projects]}
              value={project}
              searchable
              onChange={(next) => next && onChoose(next)}
            />
            {isMember && (
              <Button leftSection={<IconPlus size={16} />} onClick={() => setDialog("add")}>
                Add secret
              </Button>
            )}
          </Group>
        }
        selection={<Actions onAction={setDialog} />}
      />
      {dialog === "add" && <SecretDialog project={project} onClose={close} />}
      {selected && dialog === "replace" && (
        <SecretDialog project={project} secret={selected} onClose={close} />
      )}
      {selected && dialog === "delete" && (
        <DeleteSecretDialog project={project} secret={selected} onClose={close} />
      )}
    </>
  );
}

function Actions({ onAction }: { onAction: (dialog: Dialog) => void }) {
  return (
    <>
      <ActionButton icon={IconRefresh} onClick={() => onAction("replace")}>
        Replace value
      </ActionButton>
      <DangerButton onClick={() => onAction("delete")}>Delete</DangerButton>
    </>
  );
}

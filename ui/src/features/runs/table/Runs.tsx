/** The table of all visible runs, updated live. */
import { Button, Text } from "@mantine/core";
import { IconPlus } from "@tabler/icons-react";
import { Link } from "wouter";
import { useMay, useOwnProjects } from "../../../api/currentUser";
import { useList } from "../../../api/lists";
import type { Run } from "../../../api/runs";
import { shortName } from "../../../format/runs";
import { COLUMNS } from "../../../runs/columns";
import { RunActions } from "../../../runs/RunActions";
import { useSelection } from "../../../table/selection";
import { TablePage } from "../../../table/TablePage";
import { useView } from "../../../table/views";
import { HowToStart } from "./HowToStart";
import { QuickFilters } from "./QuickFilters";

export default function Runs() {
  const view = useView("runs", COLUMNS, "-created_at");
  const list = useList("/api/v1/runs", view.query);
  const isMember = (useOwnProjects() ?? []).length > 0;
  const { selected, select } = useSelection(list.items);
  return (
    <TablePage<Run>
      title="Runs"
      about="All runs you can see, updated live."
      nouns="runs"
      emptyState={{ title: "No runs yet", hint: <HowToStart isMember={isMember} /> }}
      quickFilters={<QuickFilters />}
      columns={COLUMNS}
      view={view}
      list={list}
      nameOf={shortName}
      selected={selected}
      onSelect={isMember ? select : undefined}
      actions={
        isMember && (
          <Button component={Link} href="/new/run" leftSection={<IconPlus size={16} />}>
            New run
          </Button>
        )
      }
      // A new key closes the open dialog when a different run is selected.
      selection={selected && <Selection key={selected.id} run={selected} />}
    />
  );
}

function Selection({ run }: { run: Run }) {
  if (useMay()("member", run.scope)) return <RunActions run={run} />;
  return (
    <Text size="xs" c="dimmed">
      Only members of {run.scope} can stop this run.
    </Text>
  );
}

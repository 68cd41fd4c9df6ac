/** Table of schedules. */
import { Button } from "@mantine/core";
import { IconPlus } from "@tabler/icons-react";
import { Link } from "wouter";
import { useOwnProjects } from "../../api/currentUser";
import { useList } from "../../api/lists";
import { newRunAddress } from "../../shell/addresses";
import { useSelection } from "../../table/selection";
import { TablePage } from "../../table/TablePage";
import { useView } from "../../table/views";
import { COLUMNS } from "./columns";
import { SCHEDULES, type Schedule } from "./requests";
import { ScheduleActions } from "./ScheduleActions";

export default function Schedules() {
  const view = useView("schedules", COLUMNS, "name");
  const list = useList(SCHEDULES, view.query);
  const isMember = (useOwnProjects() ?? []).length > 0;
  const { selected, select } = useSelection(list.items);
  return (
    <TablePage<Schedule>
      title="Schedules"
      about="Runs that start on a schedule, with the permissions of their owner."
      nouns="schedules"
      emptyState={{
        title: "No schedules yet",
        hint: isMember
          ? "Set a schedule in the New run form, or use fairlead run --schedule."
          : "Schedules from your projects will appear here.",
      }}
      columns={COLUMNS}
      view={view}
      list={list}
      nameOf={(item) => item.name}
      selected={selected}
      onSelect={isMember ? select : undefined}
      actions={
        isMember && (
          <Button component={Link} href={newRunAddress({})} leftSection={<IconPlus size={16} />}>
            New schedule
          </Button>
        )
      }
      // A new key closes the open dialog when a different schedule is selected.
      selection={selected && <ScheduleActions key={selected.id} item={selected} />}
    />
  );
}

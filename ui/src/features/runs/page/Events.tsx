/** Events of a run, oldest first. */
import { Table } from "@mantine/core";
import type { Run } from "../../../api/runs";
import { ScrolledTable } from "../../../format/ScrolledTable";
import { sentence } from "../../../format/sentences";
import { showMoment } from "../../../format/times";
import { StateBadge } from "../../../runs/StateBadge";
import { Loading } from "../../../shell/Loading";
import { Card } from "../../../shell/Page";
import { ProblemAlert } from "../../../shell/Problem";
import { useEvents } from "./requests";

export function Events({ run }: { run: Run }) {
  const events = useEvents(run.id);
  if (!events.data) {
    if (events.error) return <ProblemAlert error={events.error} onRetry={() => void events.refetch()} />;
    return <Loading />;
  }
  return (
    <Card title="Events" about="Every change to the state or reason.">
      <ScrolledTable minWidth={560} aria-label="Events">
        <Table.Thead>
          <Table.Tr>
            <Table.Th w={190}>Time</Table.Th>
            <Table.Th w={110}>State</Table.Th>
            <Table.Th w={150}>Reason</Table.Th>
            <Table.Th>Message</Table.Th>
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {events.data.map((event) => (
            <Table.Tr key={event.id}>
              <Table.Td className="number">
                <time dateTime={event.at}>{showMoment(event.at)}</time>
              </Table.Td>
              <Table.Td>
                <StateBadge state={event.state} />
              </Table.Td>
              <Table.Td>{event.reason}</Table.Td>
              <Table.Td style={{ overflowWrap: "anywhere" }}>{sentence(event.message)}</Table.Td>
            </Table.Tr>
          ))}
        </Table.Tbody>
      </ScrolledTable>
    </Card>
  );
}

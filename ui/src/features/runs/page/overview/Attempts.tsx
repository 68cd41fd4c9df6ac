import { Table } from "@mantine/core";
import type { Run } from "../../../../api/runs";
import { Card } from "../../../../shell/Page";
import { showSpan } from "../../../../words/durations";
import { useNow } from "../../../../words/now";
import { Time } from "../../../../words/Time";
import { useEvents } from "../requests";
import { listAttempts } from "./history";

/** Each time that a run had a place, and how that ended. */
export function Attempts({ run }: { run: Run }) {
  const events = useEvents(run.id);
  const now = useNow(run.live);
  const attempts = listAttempts(events.data ?? []);
  if (attempts.length === 0) return null;
  return (
    <Card title="Attempts">
      <Table fz="sm" aria-label="Attempts">
        <Table.Thead>
          <Table.Tr>
            <Table.Th w={80}>Attempt</Table.Th>
            <Table.Th>Started</Table.Th>
            <Table.Th>Took</Table.Th>
            <Table.Th>How it ended</Table.Th>
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {attempts.map((attempt) => (
            <Table.Tr key={attempt.number}>
              <Table.Td>{attempt.number}</Table.Td>
              <Table.Td>
                <Time at={attempt.started} />
              </Table.Td>
              <Table.Td className="number">{showSpan(attempt.started, attempt.ended?.at, now)}</Table.Td>
              <Table.Td>{attempt.ended ? attempt.ended.reason : "goes on"}</Table.Td>
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </Card>
  );
}

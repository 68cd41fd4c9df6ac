import { Anchor, Table, Text } from "@mantine/core";
import { Link } from "wouter";
import type { Run } from "../../../../api/runs";
import { showBytes } from "../../../../format/amounts";
import { showSpan } from "../../../../format/durations";
import { Time } from "../../../../format/Time";
import { useNow } from "../../../../format/useNow";
import { runAddress } from "../../../../shell/addresses";
import { Card } from "../../../../shell/Page";
import { NONE } from "../../../../table/columns";
import { useAttempts } from "../requests";

/** Attempts of a run, with links to their logs and usage. Hidden if there is only one. */
export function Attempts({ run }: { run: Run }) {
  const attempts = useAttempts(run).data ?? [];
  const now = useNow(run.active);
  if (attempts.length < 2) return null;
  return (
    <Card title="Attempts">
      <Table fz="sm" aria-label="Attempts">
        <Table.Thead>
          <Table.Tr>
            <Table.Th w={80}>Attempt</Table.Th>
            <Table.Th>Started</Table.Th>
            <Table.Th>Duration</Table.Th>
            <Table.Th>Memory</Table.Th>
            <Table.Th>Outcome</Table.Th>
            <Table.Th />
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {attempts.map((attempt) => (
            <Table.Tr key={attempt.number}>
              <Table.Td>{attempt.number}</Table.Td>
              <Table.Td>
                <Time at={attempt.started_at} />
              </Table.Td>
              <Table.Td className="number">
                {attempt.started_at ? showSpan(attempt.started_at, attempt.finished_at, now) : NONE}
              </Table.Td>
              <Table.Td className="number">
                {attempt.mem_bytes ? showBytes(attempt.mem_bytes) : NONE}
              </Table.Td>
              <Table.Td>
                {attempt.reason}
                <Text span c="dimmed" size="xs" display="block" lineClamp={2}>
                  {attempt.message}
                </Text>
              </Table.Td>
              <Table.Td style={{ whiteSpace: "nowrap" }}>
                <PartLink run={run} part="logs" attempt={attempt.number} title="Log" />{" "}
                <PartLink run={run} part="usage" attempt={attempt.number} title="Usage" />
              </Table.Td>
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </Card>
  );
}

function PartLink({ run, part, attempt, title }: { run: Run; part: string; attempt: number; title: string }) {
  return (
    <Anchor
      component={Link}
      href={`${runAddress(run.id)}/${part}?attempt=${attempt}`}
      fz="inherit"
      underline="always"
      aria-label={`${title} of attempt ${attempt}`}
    >
      {title}
    </Anchor>
  );
}

/** What it was after each save, and what changed between two of them. */
import { Group, Select, Table, Text, UnstyledButton } from "@mantine/core";
import { useState } from "react";
import type { Schemas } from "../../api/client";
import { Differences } from "../../format/Differences";
import { Time } from "../../format/Time";
import { Loading } from "../../shell/Loading";
import { Card, Columns } from "../../shell/Page";
import { ProblemAlert } from "../../shell/Problem";
import { type Asset, type AssetKind, useDifferences, useRevisions } from "./requests";

interface Props {
  kind: AssetKind;
  item: Asset;
}

export function Revisions({ kind, item }: Props) {
  const revisions = useRevisions(kind, item.id);
  const [old, setOld] = useState(Math.max(item.revision - 1, 1));
  const [now, setNow] = useState(item.revision);
  if (revisions.error) return <ProblemAlert error={revisions.error} />;
  if (!revisions.data) return <Loading />;
  const numbers = revisions.data.map((revision) => String(revision.number));
  return (
    <Columns
      side={
        <Card>
          <RevisionTable
            revisions={revisions.data}
            onChoose={(number) => {
              setOld(Math.max(number - 1, 1));
              setNow(number);
            }}
          />
        </Card>
      }
    >
      <Card
        title="What changed"
        actions={
          <Group gap="xs">
            <Text size="sm">from revision</Text>
            <NumberSelect label="Older revision" numbers={numbers} value={old} onChange={setOld} />
            <Text size="sm">to</Text>
            <NumberSelect label="Newer revision" numbers={numbers} value={now} onChange={setNow} />
          </Group>
        }
      >
        <Compared kind={kind} item={item} old={old} now={now} />
      </Card>
    </Columns>
  );
}

interface TableProps {
  revisions: Schemas["RevisionRecord"][];
  onChoose: (number: number) => void;
}

function RevisionTable({ revisions, onChoose }: TableProps) {
  return (
    <Table fz="sm" highlightOnHover>
      <Table.Thead>
        <Table.Tr>
          <Table.Th>Revision</Table.Th>
          <Table.Th>Saved by</Table.Th>
          <Table.Th>When</Table.Th>
        </Table.Tr>
      </Table.Thead>
      <Table.Tbody>
        {revisions.map((revision) => (
          <Table.Tr key={revision.id}>
            <Table.Td>
              <UnstyledButton
                fz="sm"
                td="underline"
                aria-label={`Show what changed in revision ${revision.number}`}
                onClick={() => onChoose(revision.number)}
              >
                {revision.number}
              </UnstyledButton>
            </Table.Td>
            <Table.Td>{revision.created_by}</Table.Td>
            <Table.Td>
              <Time at={revision.created_at} />
            </Table.Td>
          </Table.Tr>
        ))}
      </Table.Tbody>
    </Table>
  );
}

function Compared({ kind, item, old, now }: Props & { old: number; now: number }) {
  const found = useDifferences(kind, item.id, old, now);
  if (found.error) return <ProblemAlert error={found.error} />;
  if (!found.data) return <Loading />;
  return <Differences differences={found.data} titles={[`Revision ${old}`, `Revision ${now}`]} />;
}

interface NumberProps {
  label: string;
  numbers: string[];
  value: number;
  onChange: (value: number) => void;
}

function NumberSelect({ label, numbers, value, onChange }: NumberProps) {
  return (
    <Select
      aria-label={label}
      size="xs"
      w={76}
      data={numbers}
      value={String(value)}
      allowDeselect={false}
      onChange={(next) => onChange(Math.trunc(+(next ?? value)))}
    />
  );
}

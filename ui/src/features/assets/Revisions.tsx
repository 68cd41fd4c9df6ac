/** Revision history, with the differences between two revisions. */
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
  const [older, setOlder] = useState(Math.max(item.revision - 1, 1));
  const [newer, setNewer] = useState(item.revision);
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
              setOlder(Math.max(number - 1, 1));
              setNewer(number);
            }}
          />
        </Card>
      }
    >
      <Card
        title="Changes"
        actions={
          <Group gap="xs">
            <Text size="sm">from revision</Text>
            <NumberSelect label="Older revision" numbers={numbers} value={older} onChange={setOlder} />
            <Text size="sm">to</Text>
            <NumberSelect label="Newer revision" numbers={numbers} value={newer} onChange={setNewer} />
          </Group>
        }
      >
        <RevisionDiff kind={kind} item={item} older={older} newer={newer} />
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
          <Table.Th>Saved at</Table.Th>
        </Table.Tr>
      </Table.Thead>
      <Table.Tbody>
        {revisions.map((revision) => (
          <Table.Tr key={revision.id}>
            <Table.Td>
              <UnstyledButton
                fz="sm"
                td="underline"
                aria-label={`Show changes in revision ${revision.number}`}
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

function RevisionDiff({ kind, item, older, newer }: Props & { older: number; newer: number }) {
  const query = useDifferences(kind, item.id, older, newer);
  if (query.error) return <ProblemAlert error={query.error} />;
  if (!query.data) return <Loading />;
  return <Differences differences={query.data} titles={[`Revision ${older}`, `Revision ${newer}`]} />;
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
      onChange={(next) => onChange(Math.trunc(+(next ?? value)))}
    />
  );
}

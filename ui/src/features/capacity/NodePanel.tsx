/** One node: what it has and what is free of it, who holds the rest, and how it is labeled. */
import { Anchor, Badge, CloseButton, Group, Stack, Table, Text } from "@mantine/core";
import { Link } from "wouter";
import type { ClusterNode } from "../../api/capacities";
import type { Run } from "../../api/runs";
import { splitScope } from "../../api/scopes";
import { shortId, shortName } from "../../format/runs";
import { runAddress } from "../../shell/addresses";
import { Card } from "../../shell/Page";
import classes from "./Capacity.module.css";
import { tellHeld } from "./holding";
import { listResources, showAmount } from "./shares";

interface Props {
  node: ClusterNode | undefined;
  /** The one that was chosen; it may be gone by now. */
  name: string | null;
  runs: Record<string, Run>;
  onClose?: () => void;
}

export function NodePanel({ node, name, runs, onClose }: Props) {
  if (!node) {
    return (
      <Card>
        <Text size="sm" c="dimmed">
          {name === null ? "Choose a node to see who holds what there." : `There is no node ${name} here.`}
        </Text>
      </Card>
    );
  }
  return (
    <Card
      title={node.name}
      actions={onClose && <CloseButton aria-label={`Close ${node.name}`} onClick={onClose} />}
    >
      <Badges node={node} />
      <Amounts node={node} />
      <Stack gap={4}>
        <Text size="sm" fw={600}>
          Who holds what
        </Text>
        <Held node={node} runs={runs} />
      </Stack>
      <Words title="Taints" words={node.taints} />
      <Words
        title="Labels"
        words={Object.entries(node.labels).map(([key, value]) => (value ? `${key}=${value}` : key))}
      />
    </Card>
  );
}

function Badges({ node }: { node: ClusterNode }) {
  const known = [node.group, node.gpu_type].filter(Boolean);
  if (known.length === 0 && !node.unavailable) return null;
  return (
    <Group gap={6}>
      {node.unavailable && <Badge color="orange">{node.unschedulable ? "cordoned" : "not well"}</Badge>}
      {known.map((word) => (
        <Badge key={word} color="gray">
          {word}
        </Badge>
      ))}
    </Group>
  );
}

function Amounts({ node }: { node: ClusterNode }) {
  return (
    <Table fz="sm" verticalSpacing={3}>
      <Table.Thead>
        <Table.Tr>
          <Table.Th>Resource</Table.Th>
          <Table.Th ta="right">Free</Table.Th>
          <Table.Th ta="right">Of</Table.Th>
        </Table.Tr>
      </Table.Thead>
      <Table.Tbody>
        {listResources(node.capacity).map(({ name, title }) => (
          <Table.Tr key={name}>
            <Table.Td style={{ overflowWrap: "anywhere" }}>{title}</Table.Td>
            <Table.Td ta="right" className="number">
              {showAmount(name, node.free[name] ?? "0")}
            </Table.Td>
            <Table.Td ta="right" className="number">
              {showAmount(name, node.capacity[name]!)}
            </Table.Td>
          </Table.Tr>
        ))}
      </Table.Tbody>
    </Table>
  );
}

function Held({ node, runs }: { node: ClusterNode; runs: Record<string, Run> }) {
  const ids = [...new Set(node.runs)];
  return (
    <>
      {ids.length > 0 && (
        <ul className={classes.runs} aria-label={`Runs on ${node.name}`}>
          {ids.map((id) => (
            <li key={id}>
              <Anchor component={Link} href={runAddress(id)} fz="sm">
                {runs[id] ? shortName(runs[id]) : shortId(id)}
              </Anchor>
              {runs[id] && (
                <Text size="xs" c="dimmed">
                  {splitScope(runs[id].scope).name} · {tellHeld(runs[id])}
                </Text>
              )}
            </li>
          ))}
        </ul>
      )}
      {ids.length + node.others === 0 && (
        <Text size="sm" c="dimmed">
          Nothing runs here.
        </Text>
      )}
      {node.others > 0 && (
        <Text size="sm" c="dimmed">
          {node.others} {node.others === 1 ? "pod that is" : "pods that are"} not Fairlead's or that you do
          not see.
        </Text>
      )}
    </>
  );
}

function Words({ title, words }: { title: string; words: string[] }) {
  if (words.length === 0) return null;
  return (
    <Stack gap={4}>
      <Text size="sm" fw={600}>
        {title}
      </Text>
      <ul className={classes.labels} aria-label={title}>
        {words.map((word) => (
          <li key={word}>{word}</li>
        ))}
      </ul>
    </Stack>
  );
}

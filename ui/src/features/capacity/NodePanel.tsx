/** The details of a node: resources, workloads, taints and labels. */
import { Anchor, Badge, CloseButton, Group, Stack, Table, Text } from "@mantine/core";
import { Link } from "wouter";
import type { ClusterNode } from "../../api/capacities";
import type { Run } from "../../api/runs";
import { splitScope } from "../../api/scopes";
import { shortId, shortName } from "../../format/runs";
import { runAddress } from "../../shell/addresses";
import { Card } from "../../shell/Page";
import { showAllocation } from "./allocations";
import classes from "./Capacity.module.css";
import { listResources, showAmount } from "./shares";

interface Props {
  node: ClusterNode | undefined;
  /** The name of the selected node, which may no longer exist. */
  name: string | null;
  runs: Record<string, Run>;
  onClose?: () => void;
}

export function NodePanel({ node, name, runs, onClose }: Props) {
  if (!node) {
    return (
      <Card>
        <Text size="sm" c="dimmed">
          {name === null ? "Select a node to see its workloads." : `Node ${name} was not found.`}
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
          Running workloads
        </Text>
        <Workloads node={node} runs={runs} />
      </Stack>
      <Protections node={node} />
      <ItemList title="Taints" items={node.taints} />
      <ItemList
        title="Labels"
        items={Object.entries(node.labels).map(([key, value]) => (value ? `${key}=${value}` : key))}
      />
    </Card>
  );
}

function Badges({ node }: { node: ClusterNode }) {
  const labels = [node.group, node.gpu_type].filter(Boolean);
  if (labels.length === 0 && !node.unavailable) return null;
  return (
    <Group gap={6}>
      {node.unavailable && <Badge color="orange">{node.unschedulable ? "cordoned" : "not ready"}</Badge>}
      {labels.map((label) => (
        <Badge key={label} color="gray">
          {label}
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
          <Table.Th ta="right">Total</Table.Th>
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

function Workloads({ node, runs }: { node: ClusterNode; runs: Record<string, Run> }) {
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
                  {splitScope(runs[id].scope).name} · {showAllocation(runs[id])}
                </Text>
              )}
            </li>
          ))}
        </ul>
      )}
      {ids.length + node.others === 0 && (
        <Text size="sm" c="dimmed">
          No workloads.
        </Text>
      )}
      {node.others > 0 && (
        <Text size="sm" c="dimmed">
          {node.others} other {node.others === 1 ? "pod" : "pods"}
        </Text>
      )}
    </>
  );
}

/** How the server's machine limits and isolates runs. Nodes of Kubernetes have no such list. */
function Protections({ node }: { node: ClusterNode }) {
  if (node.protections.length === 0) return null;
  return (
    <Table fz="sm" verticalSpacing={3} aria-label="Isolation of runs">
      <Table.Thead>
        <Table.Tr>
          <Table.Th>Isolation of runs</Table.Th>
          <Table.Th>Mechanism</Table.Th>
        </Table.Tr>
      </Table.Thead>
      <Table.Tbody>
        {node.protections.map(({ name, mechanism, gap }) => (
          <Table.Tr key={name}>
            <Table.Td>{PROTECTIONS[name]}</Table.Td>
            <Table.Td>
              {mechanism || "Not enforced"}
              {gap && (
                <Text size="xs" c="dimmed">
                  {gap}
                </Text>
              )}
            </Table.Td>
          </Table.Tr>
        ))}
      </Table.Tbody>
    </Table>
  );
}

const PROTECTIONS: Record<ClusterNode["protections"][number]["name"], string> = {
  memory: "Memory",
  swap: "Swap",
  cpu: "CPU",
  process_count: "Number of processes",
  disk: "Disk",
  temporary_files: "Temporary files",
  shared_memory: "Shared memory",
  files: "Files",
  users: "Users",
  processes: "Processes",
  network: "Network",
  system_calls: "System calls",
};

function ItemList({ title, items }: { title: string; items: string[] }) {
  if (items.length === 0) return null;
  return (
    <Stack gap={4}>
      <Text size="sm" fw={600}>
        {title}
      </Text>
      <ul className={classes.labels} aria-label={title}>
        {items.map((item) => (
          <li key={item}>{item}</li>
        ))}
      </ul>
    </Stack>
  );
}

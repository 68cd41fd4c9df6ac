/** Cards to select a cluster, with a summary of each. Hidden if there is only one. */
import { Badge, Group, Text, UnstyledButton } from "@mantine/core";
import type { Capacity } from "../../api/capacities";
import classes from "./Capacity.module.css";
import type { Choices } from "./choices";
import { listResources, showAmount } from "./shares";

interface Props {
  capacities: Capacity[];
  value: string;
  choices: Choices;
}

export function ClusterPicker({ capacities, value, choices }: Props) {
  if (capacities.length < 2) return null;
  return (
    <section className={classes.clusters} aria-label="Clusters">
      {capacities.map((one) => (
        <UnstyledButton
          key={one.cluster}
          className={classes.cluster}
          aria-pressed={one.cluster === value}
          onClick={() => choices.choose({ cluster: one.cluster, project: null, node: null })}
        >
          <Group gap={6} wrap="nowrap">
            <Text span fw={600} truncate>
              {one.cluster}
            </Text>
            <ClusterBadges capacity={one} />
          </Group>
          <Text size="xs" c="dimmed" className="number" lineClamp={2}>
            {one.total ? describePool(one.total) : one.error}
          </Text>
        </UnstyledButton>
      ))}
    </section>
  );
}

export function ClusterBadges({ capacity }: { capacity: Capacity }) {
  return (
    <>
      {!capacity.reachable && <Badge color="red">not reachable</Badge>}
      {capacity.autoscaled && <Badge>autoscaled</Badge>}
    </>
  );
}

/** "12 nodes (1 cordoned or not ready) · 3 of 96 GPUs free". */
function describePool(total: NonNullable<Capacity["total"]>): string {
  const [first] = listResources(total.capacity);
  const free = first ? ` · ${describeFree(first, total)}` : "";
  return `${describeNodes(total)}${free}`;
}

function describeFree(
  { name, title }: { name: string; title: string },
  pool: NonNullable<Capacity["total"]>,
) {
  const [free, total] = [pool.free[name]!, pool.capacity[name]!].map((amount) => showAmount(name, amount));
  return `${free} of ${total} ${title === "GPUs" ? "GPUs" : "cores"} free`;
}

export function describeNodes({ nodes, unavailable }: { nodes: number; unavailable: number }): string {
  const count = `${nodes.toLocaleString("en")} ${nodes === 1 ? "node" : "nodes"}`;
  return unavailable > 0 ? `${count} (${unavailable.toLocaleString("en")} cordoned or not ready)` : count;
}

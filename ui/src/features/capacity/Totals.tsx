/** The capacity, free amount and largest free block of each resource in a cluster. */
import { Anchor, Group, Progress, Text } from "@mantine/core";
import type { Pool } from "../../api/capacities";
import { numberOf } from "../../format/amounts";
import classes from "./Capacity.module.css";
import { listResources, showAmount, showBlock } from "./shares";

interface Props {
  total: Pool;
  onChoose: (node: string) => void;
}

export function Totals({ total, onChoose }: Props) {
  return (
    <div className={classes.totals}>
      {listResources(total.capacity).map(({ name, title }) => (
        <Total key={name} pool={total} resource={name} title={title} onChoose={onChoose} />
      ))}
    </div>
  );
}

interface TotalProps {
  pool: Pool;
  resource: string;
  title: string;
  onChoose: (node: string) => void;
}

function Total({ pool, resource, title, onChoose }: TotalProps) {
  const capacity = pool.capacity[resource]!;
  const used = numberOf(pool.requested[resource] ?? "0");
  const share = numberOf(capacity) > 0 ? Math.min(100, (used / numberOf(capacity)) * 100) : 0;
  const text = `${showAmount(resource, pool.free[resource] ?? "0")} of ${showAmount(resource, capacity)} free`;
  const largest = pool.largest[resource];
  return (
    <div>
      <Group justify="space-between" gap="xs" mb={4}>
        <Text size="sm" fw={550}>
          {title}
        </Text>
        <Text size="sm" className="number">
          {text}
        </Text>
      </Group>
      <Progress.Root size={8} radius="xl">
        <Progress.Section
          value={share}
          withAria={false}
          role="meter"
          aria-valuemin={0}
          aria-valuemax={100}
          aria-valuenow={Math.round(share)}
          aria-label={`${title} requested`}
          aria-valuetext={`${showAmount(resource, pool.requested[resource] ?? "0")} requested, ${text}`}
        />
      </Progress.Root>
      <Text size="xs" c="dimmed" mt={4} component="div">
        {largest && numberOf(largest.amount) > 0 ? (
          <>
            Largest free block: {showBlock(resource, title, largest.amount)} on{" "}
            <Anchor component="button" type="button" fz="inherit" onClick={() => onChoose(largest.node)}>
              {largest.node}
            </Anchor>
          </>
        ) : (
          "None free on any node"
        )}
      </Text>
    </div>
  );
}

/** Form fields for limit factors, quotas and the queue. */
import { SimpleGrid } from "@mantine/core";
import { AmountInput } from "../../forms/AmountInput";
import { BYTES, CORES } from "../../forms/quantities";
import { TextField } from "../../forms/TextField";
import type { PolicyDraft, Resource } from "./drafts";

interface Props {
  draft: PolicyDraft;
  change: (part: Partial<PolicyDraft>) => void;
}

const FACTORS: [Resource, string][] = [
  ["cpu", "CPU compute limit"],
  ["mem", "CPU memory limit"],
  ["disk", "Disk limit"],
];
const COUNTS = [
  ["gpu", "GPU devices"],
  ["runs", "Runs"],
] as const;
const AMOUNTS = [
  ["cpu", "CPU compute", CORES],
  ["mem", "CPU memory", BYTES],
] as const;

export function LimitFactors({ draft, change }: Props) {
  return (
    <SimpleGrid cols={{ base: 1, xs: 3 }}>
      {FACTORS.map(([name, label]) => (
        <TextField
          key={name}
          label={label}
          placeholder="not set"
          inputMode="decimal"
          rightSection="× request"
          rightSectionWidth={84}
          rightSectionProps={{ style: { fontSize: "0.8rem", color: "var(--muted)" } }}
          value={draft.limit_factor[name]}
          onChange={(text) => change({ limit_factor: { ...draft.limit_factor, [name]: text } })}
          path={`limit_factor.${name}`}
        />
      ))}
    </SimpleGrid>
  );
}

export function Quota({ draft, change }: Props) {
  const set = (part: Partial<PolicyDraft["quota"]>) => change({ quota: { ...draft.quota, ...part } });
  return (
    <SimpleGrid cols={{ base: 1, xs: 2 }}>
      {COUNTS.map(([name, label]) => (
        <TextField
          key={name}
          label={label}
          placeholder="not set"
          inputMode="numeric"
          value={draft.quota[name]}
          onChange={(text) => set({ [name]: text })}
          path={`quota.${name}`}
        />
      ))}
      {AMOUNTS.map(([name, label, units]) => (
        <AmountInput
          key={name}
          label={label}
          of={`the ${label} quota`}
          units={units}
          value={draft.quota[name]}
          onChange={(amount) => set({ [name]: amount })}
          path={`quota.${name}`}
        />
      ))}
    </SimpleGrid>
  );
}

interface QueueProps extends Props {
  /** Only editors of the platform may change weights. */
  maySetWeight: boolean;
}

export function QueueLimits({ draft, change, maySetWeight }: QueueProps) {
  const set = (part: Partial<PolicyDraft["queue"]>) => change({ queue: { ...draft.queue, ...part } });
  return (
    <SimpleGrid cols={{ base: 1, xs: 2 }}>
      <TextField
        label="Waiting runs per project"
        description="More submissions are rejected."
        placeholder="not set"
        inputMode="numeric"
        value={draft.queue.max_waiting_runs}
        onChange={(text) => set({ max_waiting_runs: text })}
        path="queue.max_waiting_runs"
      />
      <TextField
        label="Weight of each project"
        description={
          maySetWeight
            ? "Weight 2 gets twice the share of weight 1."
            : "Only editors of the platform can change it."
        }
        placeholder="not set"
        inputMode="decimal"
        disabled={!maySetWeight}
        value={draft.queue.weight}
        onChange={(text) => set({ weight: text })}
        path="queue.weight"
      />
    </SimpleGrid>
  );
}

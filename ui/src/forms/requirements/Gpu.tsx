/** Form fields for GPUs: count, type and device fraction. */
import { Input, SegmentedControl, Select, SimpleGrid, Stack, Switch } from "@mantine/core";
import { AmountInput } from "../AmountInput";
import { useFinding } from "../findings";
import { type Amount, unitsFor } from "../quantities";
import { Note, Notes } from "../resolved";
import { Section } from "../Section";
import { TextField } from "../TextField";
import type { GpuDraft, GpuPart } from "./drafts";

const FORMATS = [
  { value: "%", label: "% (of device)" },
  { value: "M", label: "MB (memory size)" },
  { value: "G", label: "GB (memory size)" },
  { value: "Mi", label: "MiB (memory size)" },
  { value: "Gi", label: "GiB (memory size)" },
  { value: "mig", label: "Multi-instance GPU (MIG)" },
];
/** The units shown next to the amounts. The memory format determines which one applies. */
const UNITS = FORMATS.map(({ value, label }) => ({ value, label: label.split(" ")[0]! }));
const PARTS = [
  { value: "whole", label: "Whole device" },
  { value: "share", label: "Fraction" },
];

interface Props {
  value: GpuDraft;
  onChange: (value: GpuDraft) => void;
  /** Whether the scope's policies allow a GPU memory limit above the request. */
  mayLimitMemory: boolean;
}

export function Gpu({ value, onChange, mayLimitMemory }: Props) {
  const finding = useFinding();
  const change = (part: Partial<GpuDraft>) => onChange({ ...value, ...part });
  const isOne = value.devices.trim() === "1";
  const isFraction = isOne && value.part !== "whole";
  return (
    <Section title="GPU">
      <Stack gap="sm">
        <SimpleGrid cols={{ base: 1, xs: 2 }} spacing="md">
          <TextField
            label="GPU devices per pod"
            description="Number of GPUs. Set to 1 to request part of a GPU."
            placeholder="not set"
            inputMode="numeric"
            value={value.devices}
            onChange={(devices) => change({ devices })}
            path="resources.gpu.devices"
            error={finding("resources.gpu.devices") ?? finding("resources.gpu", "exact")}
          />
          <TextField
            label="GPU type"
            description="GPU model, e.g. A100"
            placeholder="any"
            value={value.type}
            onChange={(type) => change({ type })}
            path="resources.gpu.type"
          />
        </SimpleGrid>
        {isOne && (
          <Stack gap={4}>
            <Input.Label component="div">GPU memory per device</Input.Label>
            <SegmentedControl
              size="xs"
              data={PARTS}
              value={isFraction ? "share" : "whole"}
              aria-label="GPU memory per device"
              onChange={(part) => change({ part: part as GpuPart })}
              style={{ alignSelf: "flex-start" }}
            />
          </Stack>
        )}
        <Notes path="resources.gpu.memory" prefix="GPU memory " />
        {!(isFraction && value.part === "mig") && <Note path="resources.gpu.mig" />}
        {isFraction && <Share value={value} change={change} mayLimitMemory={mayLimitMemory} />}
      </Stack>
    </Section>
  );
}

interface ShareProps {
  value: GpuDraft;
  change: (part: Partial<GpuDraft>) => void;
  mayLimitMemory: boolean;
}

function Share({ value, change, mayLimitMemory }: ShareProps) {
  const finding = useFinding();
  const setFormat = (format: string | null) => {
    if (format === "mig") change({ part: "mig" });
    else if (format !== null) {
      const [request, limit] = [value.request, value.limit].map((amount) => ({ ...amount, unit: format }));
      change({ part: "share", request, limit });
    }
  };
  return (
    <SimpleGrid cols={{ base: 1, xs: 2 }} spacing="md">
      <Select
        label="Memory format"
        data={unitsFor(FORMATS, value.request.unit)}
        value={value.part === "mig" ? "mig" : value.request.unit}
        onChange={setFormat}
      />
      {value.part === "mig" ? (
        <TextField
          label="MIG profile"
          placeholder="e.g. 1g.5gb"
          value={value.mig}
          onChange={(mig) => change({ mig })}
          path="resources.gpu.mig"
        />
      ) : (
        <>
          <AmountInput
            label="GPU memory request"
            units={UNITS}
            isUnitFixed
            value={value.request}
            onChange={(request: Amount) => change({ request })}
            error={finding("resources.gpu.memory.request") ?? finding("resources.gpu.memory", "exact")}
          />
          {(mayLimitMemory || value.hasLimit) && (
            <Stack gap="xs" style={{ gridColumn: "1 / -1" }}>
              <Switch
                label="GPU memory limit"
                description="Allow more than requested when memory is free"
                checked={value.hasLimit}
                onChange={(event) => change({ hasLimit: event.currentTarget.checked })}
              />
              {value.hasLimit && (
                <AmountInput
                  label="Maximum GPU memory"
                  units={UNITS}
                  isUnitFixed
                  value={value.limit}
                  onChange={(limit: Amount) => change({ limit })}
                  path="resources.gpu.memory.limit"
                />
              )}
            </Stack>
          )}
        </>
      )}
    </SimpleGrid>
  );
}

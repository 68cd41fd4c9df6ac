/** GPUs: how many, of which type, and how much of one. */
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
/** Chosen with the format; beside an amount, the unit alone. */
const UNITS = FORMATS.map(({ value, label }) => ({ value, label: label.split(" ")[0]! }));
const PARTS = [
  { value: "whole", label: "Whole device" },
  { value: "share", label: "Part of it" },
];

interface Props {
  value: GpuDraft;
  onChange: (value: GpuDraft) => void;
  /** Whether the policies at the scope allow a limit above the request. */
  mayLimitMemory: boolean;
}

export function Gpu({ value, onChange, mayLimitMemory }: Props) {
  const finding = useFinding();
  const change = (part: Partial<GpuDraft>) => onChange({ ...value, ...part });
  const isOne = value.devices.trim() === "1";
  const isPart = isOne && value.part !== "whole";
  return (
    <Section title="GPU">
      <Stack gap="sm">
        <SimpleGrid cols={{ base: 1, xs: 2 }} spacing="md">
          <TextField
            label="GPU devices per pod"
            description="Whole devices: 0 for none, 1 to share one"
            placeholder="not set"
            inputMode="numeric"
            value={value.devices}
            onChange={(devices) => change({ devices })}
            path="resources.gpu.devices"
            error={finding("resources.gpu.devices") ?? finding("resources.gpu", "exact")}
          />
          <TextField
            label="GPU type"
            description="Only nodes with that product"
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
              value={isPart ? "share" : "whole"}
              aria-label="GPU memory per device"
              onChange={(part) => change({ part: part as GpuPart })}
              style={{ alignSelf: "flex-start" }}
            />
          </Stack>
        )}
        <Notes path="resources.gpu.memory" of="GPU memory " />
        {!(isPart && value.part === "mig") && <Note path="resources.gpu.mig" />}
        {isPart && <Share value={value} change={change} mayLimitMemory={mayLimitMemory} />}
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
      const [request, limit] = [value.request, value.limit].map((one) => ({ ...one, unit: format }));
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
        allowDeselect={false}
      />
      {value.part === "mig" ? (
        <TextField
          label="MIG profile"
          placeholder="such as 1g.5gb"
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
                description="More than the request, while it is free"
                checked={value.hasLimit}
                onChange={(event) => change({ hasLimit: event.currentTarget.checked })}
              />
              {value.hasLimit && (
                <AmountInput
                  label="GPU memory: at most"
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

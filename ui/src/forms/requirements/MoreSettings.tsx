/** Advanced settings: shared memory, disk, placement, volumes, environment and security context. */
import { Group, Input, SegmentedControl, SimpleGrid, Stack, TagsInput } from "@mantine/core";
import { AmountInput } from "../AmountInput";
import { useFinding } from "../findings";
import { Pairs } from "../Pairs";
import { BYTES } from "../quantities";
import { Note, Notes } from "../resolved";
import { Section } from "../Section";
import { TextArea, TextField } from "../TextField";
import { Bounded } from "./Bounded";
import type { RequirementsDraft } from "./drafts";
import { Tolerations } from "./Tolerations";
import { Volumes } from "./Volumes";

interface Props {
  value: RequirementsDraft;
  change: (part: Partial<RequirementsDraft>) => void;
  /** Suggested secret names. Users can enter others. */
  secrets?: string[];
}

const SHARED_MEMORY = [
  { value: "", label: "Not set" },
  { value: "false", label: "Default (64 MB)" },
  { value: "true", label: "Same as memory" },
  { value: "size", label: "Custom size" },
];
const IDS: { key: "run_as_user" | "run_as_group" | "fs_group"; label: string }[] = [
  { key: "run_as_user", label: "User ID" },
  { key: "run_as_group", label: "Group ID" },
  { key: "fs_group", label: "Volume group (fsGroup)" },
];

export function MoreSettings({ value, change, secrets }: Props) {
  return (
    <Stack gap="lg">
      <SharedMemory value={value} change={change} />
      <Bounded
        title="Disk per pod"
        path="resources.disk"
        units={BYTES}
        value={value.disk}
        onChange={(disk) => change({ disk })}
      />
      <Placement value={value} change={change} />
      <Volumes rows={value.volumes} onChange={(volumes) => change({ volumes })} />
      <Environment value={value} change={change} secrets={secrets} />
      <SecurityContext value={value} change={change} />
    </Stack>
  );
}

function SharedMemory({ value, change }: Props) {
  const finding = useFinding();
  return (
    <Stack gap={4}>
      <Input.Label component="div">Shared memory (/dev/shm)</Input.Label>
      <Group gap="sm" align="flex-end">
        <SegmentedControl
          size="xs"
          aria-label="Shared memory"
          data={SHARED_MEMORY}
          value={value.shm}
          onChange={(shm) => change({ shm: shm as RequirementsDraft["shm"] })}
        />
        {value.shm === "size" && (
          <AmountInput
            label="Shared memory size"
            units={BYTES}
            value={value.shmSize}
            onChange={(shmSize) => change({ shmSize })}
          />
        )}
      </Group>
      <Note path="resources.shm" />
      {finding("resources.shm") && <Input.Error>{finding("resources.shm")}</Input.Error>}
    </Stack>
  );
}

function Placement({ value, change }: Props) {
  return (
    <Section title="Placement">
      <Stack>
        <Pairs
          title="Extended resources"
          noun="extended resource"
          description="Other node devices, e.g. vendor.example/nic"
          columns={["resource", "quantity"]}
          rows={value.extended}
          onChange={(extended) => change({ extended })}
          path="resources.extended"
        />
        <Pairs
          title="Node selector"
          noun="node label"
          description="Run only on nodes with these labels"
          columns={["label", "value"]}
          rows={value.node_selector}
          onChange={(node_selector) => change({ node_selector })}
          path="node_selector"
        />
        <Tolerations rows={value.tolerations} onChange={(tolerations) => change({ tolerations })} />
        <TextArea
          label="Affinity"
          description="Kubernetes affinity in YAML or JSON"
          autosize
          minRows={2}
          maxRows={14}
          isCode
          value={value.affinity}
          onChange={(affinity) => change({ affinity })}
          path="affinity"
        />
        <Notes path="affinity" />
        <SimpleGrid cols={{ base: 1, xs: 2 }}>
          <TextField
            label="Runtime class"
            placeholder="e.g. nvidia"
            value={value.runtime_class}
            onChange={(runtime_class) => change({ runtime_class })}
            path="runtime_class"
          />
          <TextField
            label="Priority class"
            placeholder="e.g. high"
            value={value.priority_class}
            onChange={(priority_class) => change({ priority_class })}
            path="priority_class"
          />
        </SimpleGrid>
      </Stack>
    </Section>
  );
}

function Environment({ value, change, secrets }: Props) {
  const finding = useFinding();
  return (
    <Section title="Environment">
      <Stack>
        <Pairs
          title="Environment variables"
          noun="variable"
          columns={["name", "value"]}
          rows={value.envs}
          onChange={(envs) => change({ envs })}
          path="envs"
        />
        <TagsInput
          label="Secrets"
          data={secrets}
          description="Project secrets to pass as environment variables"
          placeholder={value.secrets.length === 0 ? "e.g. HF_TOKEN" : ""}
          value={value.secrets}
          onChange={(secrets) => change({ secrets })}
          error={finding("secrets")}
        />
        <Notes path="secrets" />
      </Stack>
    </Section>
  );
}

function SecurityContext({ value, change }: Props) {
  return (
    <Section title="Security context">
      <SimpleGrid cols={{ base: 1, xs: 3 }}>
        {IDS.map(({ key, label }) => (
          <TextField
            key={key}
            label={label}
            placeholder="not set"
            inputMode="numeric"
            value={value[key]}
            onChange={(text) => change({ [key]: text })}
            path={key}
          />
        ))}
      </SimpleGrid>
    </Section>
  );
}

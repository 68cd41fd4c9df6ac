import { Paper, Select, SimpleGrid, Stack, Switch } from "@mantine/core";
import { useFinding } from "../findings";
import { Rows } from "../Rows";
import { Notes } from "../resolved";
import { TextField } from "../TextField";
import type { VolumeDraft } from "./rows";

/** Labels and spec fields of each volume type. */
const TYPES: Record<string, { label: string; spec: [string, string][] }> = {
  persistent_volume_claim: {
    label: "Persistent volume claim (per run)",
    spec: [
      ["size", "Size, e.g. 10Gi"],
      ["storage_class", "Storage class"],
    ],
  },
  ephemeral: {
    label: "Ephemeral volume (per pod)",
    spec: [
      ["size", "Size, e.g. 10Gi"],
      ["storage_class", "Storage class"],
    ],
  },
  empty_dir: {
    label: "Empty directory",
    spec: [
      ["size", "Size, e.g. 1Gi"],
      ["medium", "Medium (Memory or empty)"],
    ],
  },
  shared_volume: { label: "Shared project volume", spec: [["claim_name", "Volume name"]] },
  config_map: { label: "ConfigMap", spec: [["name", "ConfigMap name"]] },
  secret: { label: "Secret (as files)", spec: [["name", "Secret name"]] },
};
const CHOICES = Object.entries(TYPES).map(([value, { label }]) => ({ value, label }));

interface Props {
  rows: VolumeDraft[];
  onChange: (rows: VolumeDraft[]) => void;
}

export function Volumes({ rows, onChange }: Props) {
  const finding = useFinding();
  return (
    <Rows
      title="Volumes"
      noun="volume"
      rows={rows}
      onChange={onChange}
      notes={<Notes path="volumes" />}
      error={finding("volumes", "exact")}
      create={(): VolumeDraft => ({
        name: "",
        volume_type: "empty_dir",
        mount_path: "",
        read_only: false,
        sub_path: "",
        spec: {},
      })}
      render={(volume, change, label, index) => (
        // The server identifies a volume by its name, or by its index if it has no name.
        <Volume volume={volume} change={change} label={label} at={`volumes.${volume.name || index}`} />
      )}
    />
  );
}

interface VolumeProps {
  volume: VolumeDraft;
  change: (part: Partial<VolumeDraft>) => void;
  label: string;
  at: string;
}

function Volume({ volume, change, label, at }: VolumeProps) {
  const finding = useFinding();
  return (
    <Paper withBorder p="sm" flex={1}>
      <SimpleGrid cols={{ base: 1, xs: 2 }} spacing="sm">
        <TextField
          size="xs"
          label="Name"
          aria-label={`${label}: name`}
          value={volume.name}
          onChange={(name) => change({ name })}
          path={`${at}.name`}
        />
        <Select
          size="xs"
          label="Type"
          aria-label={`${label}: type`}
          data={CHOICES}
          value={volume.volume_type}
          onChange={(type) => change({ volume_type: type ?? volume.volume_type, spec: {} })}
        />
        <TextField
          size="xs"
          label="Mount path"
          aria-label={`${label}: mount path`}
          placeholder="/data"
          value={volume.mount_path}
          onChange={(mount_path) => change({ mount_path })}
          error={finding(`${at}.mount_path`) ?? finding(at, "exact")}
        />
        {TYPES[volume.volume_type]?.spec.map(([key, title]) => (
          <TextField
            key={key}
            size="xs"
            label={title}
            aria-label={`${label}: ${key.replace("_", " ")}`}
            value={volume.spec[key] ?? ""}
            onChange={(text) => change({ spec: { ...volume.spec, [key]: text } })}
            path={`${at}.spec.${key}`}
          />
        ))}
        <TextField
          size="xs"
          label="Subpath"
          aria-label={`${label}: subpath`}
          value={volume.sub_path}
          onChange={(sub_path) => change({ sub_path })}
          path={`${at}.sub_path`}
        />
        <Stack justify="flex-end">
          <Switch
            size="xs"
            label="Read-only"
            checked={volume.read_only}
            onChange={(event) => change({ read_only: event.currentTarget.checked })}
          />
        </Stack>
      </SimpleGrid>
    </Paper>
  );
}

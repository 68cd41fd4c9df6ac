import { Paper, Select, SimpleGrid, Stack, Switch } from "@mantine/core";
import { useFinding } from "../findings";
import { Rows } from "../Rows";
import { Notes } from "../resolved";
import { TextField } from "../TextField";
import type { VolumeDraft } from "./rows";

/** What each type of volume is called, and what its spec may say. */
const TYPES: Record<string, { label: string; spec: [string, string][] }> = {
  persistent_volume_claim: {
    label: "Claim of its own, per run",
    spec: [
      ["size", "Size, such as 10Gi"],
      ["storage_class", "Storage class"],
    ],
  },
  ephemeral: {
    label: "Ephemeral claim, per pod",
    spec: [
      ["size", "Size, such as 10Gi"],
      ["storage_class", "Storage class"],
    ],
  },
  empty_dir: {
    label: "Empty folder",
    spec: [
      ["size", "Size, such as 1Gi"],
      ["medium", "Memory, or nothing for disk"],
    ],
  },
  shared_volume: { label: "Shared volume of the project", spec: [["claim_name", "Name of the volume"]] },
  config_map: { label: "Config map", spec: [["name", "Name of the config map"]] },
  secret: { label: "Secret as a file", spec: [["name", "Name of the secret"]] },
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
        // A volume is known by its name, and by its place where it has none yet.
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
          allowDeselect={false}
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
          label="Folder in it (sub path)"
          aria-label={`${label}: sub path`}
          value={volume.sub_path}
          onChange={(sub_path) => change({ sub_path })}
          path={`${at}.sub_path`}
        />
        <Stack justify="flex-end">
          <Switch
            size="xs"
            label="Read only"
            checked={volume.read_only}
            onChange={(event) => change({ read_only: event.currentTarget.checked })}
          />
        </Stack>
      </SimpleGrid>
    </Paper>
  );
}

/** Shows a run's manifests as YAML, with buttons to copy and download them. */
import { Code, Group, NativeSelect, Stack, Text } from "@mantine/core";
import { useState } from "react";
import { stringify } from "yaml";
import type { Manifest } from "../api/plans";
import { CopyButton } from "../shell/CopyButton";
import { DownloadButton } from "../shell/DownloadButton";
import classes from "./Manifests.module.css";

const ALL = "all";

interface Props {
  manifests: Manifest[];
  /** The name of the downloaded file, without the extension. */
  name: string;
}

export function Manifests({ manifests, name }: Props) {
  const [selected, setSelected] = useState(ALL);
  if (manifests.length === 0) {
    return (
      <Text size="sm" c="dimmed">
        No manifests.
      </Text>
    );
  }
  const manifest = manifests[Number(selected)];
  const shown = manifest ? [manifest] : manifests;
  const text = shown.map((object) => stringify(object, { lineWidth: 0 })).join("---\n");
  return (
    <Stack gap="xs">
      <Group gap="xs" justify="space-between">
        <NativeSelect
          size="xs"
          aria-label="Object"
          className={classes.objects}
          value={manifest ? selected : ALL}
          onChange={(event) => setSelected(event.currentTarget.value)}
          data={[
            {
              value: ALL,
              label: manifests.length === 1 ? "1 object" : `All ${manifests.length} objects`,
            },
            ...manifests.map((object, index) => ({
              value: `${index}`,
              label: `${object.kind} ${object.metadata.name}`,
            })),
          ]}
        />
        <Group gap="xs" wrap="nowrap">
          <CopyButton text={text} />
          <DownloadButton text={text} name={`${name}.yaml`} type="application/yaml" />
        </Group>
      </Group>
      <Code block tabIndex={0} aria-label="Manifests as YAML" role="region" className={classes.text}>
        {text}
      </Code>
    </Stack>
  );
}

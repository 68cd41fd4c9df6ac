/** What would be created, or was: as YAML, all of it or one object, to copy or to keep as a file. */
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
  /** What the file is called. */
  name: string;
}

export function Manifests({ manifests, name }: Props) {
  const [chosen, setChosen] = useState(ALL);
  if (manifests.length === 0) {
    return (
      <Text size="sm" c="dimmed">
        There are none.
      </Text>
    );
  }
  const one = manifests[Number(chosen)];
  const shown = one ? [one] : manifests;
  const text = shown.map((manifest) => stringify(manifest, { lineWidth: 0 })).join("---\n");
  return (
    <Stack gap="xs">
      <Group gap="xs" justify="space-between">
        <NativeSelect
          size="xs"
          aria-label="Object"
          className={classes.objects}
          value={one ? chosen : ALL}
          onChange={(event) => setChosen(event.currentTarget.value)}
          data={[
            {
              value: ALL,
              label: manifests.length === 1 ? "The one object" : `All ${manifests.length} objects`,
            },
            ...manifests.map((manifest, at) => ({
              value: `${at}`,
              label: `${manifest.kind} ${manifest.metadata.name}`,
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

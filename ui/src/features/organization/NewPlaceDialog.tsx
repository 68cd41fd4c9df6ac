import { Text } from "@mantine/core";
import { useState } from "react";
import type { Place } from "../../api/places";
import { FormDialog } from "../../forms/FormDialog";
import { notify } from "../../shell/notices";
import { CLUSTER_FIELDS, ClusterFields } from "./ClusterForm";
import { readCluster, writeCluster } from "./clusters";
import { type KINDS, titleOf } from "./kinds";
import { NameInput } from "./PlaceDialogs";
import { useCreatePlace } from "./requests";

interface NewProps {
  kind: (typeof KINDS)[number];
  parent: Place;
  onClose: () => void;
  onDone: (after?: Place) => void;
}

export function NewPlaceDialog({ kind: { kind, about }, parent, onClose, onDone }: NewProps) {
  const isCluster = kind === "cluster";
  const [name, setName] = useState("");
  const [cluster, setCluster] = useState(() => readCluster());
  const creating = useCreatePlace(kind, (after) => {
    notify(`Created ${after?.scope}`);
    onDone(after);
  });
  return (
    <FormDialog
      title={`New ${kind} below ${titleOf(parent)}`}
      deed={`Create ${kind}`}
      fields={["name", ...(isCluster ? CLUSTER_FIELDS : [])]}
      change={creating}
      onClose={onClose}
      onSubmit={() =>
        creating.mutate({
          ...(isCluster && writeCluster(cluster)),
          name: name.trim(),
          parent: parent.scope,
        })
      }
    >
      <Text size="sm" c="dimmed">
        {about}
      </Text>
      <NameInput value={name} onChange={setName} />
      {isCluster && <ClusterFields draft={cluster} onChange={setCluster} />}
    </FormDialog>
  );
}

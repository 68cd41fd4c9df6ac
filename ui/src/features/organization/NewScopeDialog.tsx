import { Text } from "@mantine/core";
import { useState } from "react";
import type { Scope } from "../../api/scopes";
import { FormDialog } from "../../forms/FormDialog";
import { notify } from "../../shell/notices";
import { CLUSTER_FIELDS, ClusterFields } from "./ClusterForm";
import { readCluster, writeCluster } from "./clusters";
import { type KINDS, titleOf } from "./kinds";
import { useCreateScope } from "./requests";
import { NameInput } from "./ScopeDialogs";

interface NewProps {
  kind: (typeof KINDS)[number];
  parent: Scope;
  onClose: () => void;
  onDone: (after?: Scope) => void;
}

export function NewScopeDialog({ kind: { kind, about }, parent, onClose, onDone }: NewProps) {
  const isCluster = kind === "cluster";
  const [name, setName] = useState("");
  const [cluster, setCluster] = useState(() => readCluster());
  const creating = useCreateScope(kind, (after) => {
    notify(`Created ${after?.scope}`);
    onDone(after);
  });
  return (
    <FormDialog
      title={`New ${kind} in ${titleOf(parent)}`}
      submitLabel={`Create ${kind}`}
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

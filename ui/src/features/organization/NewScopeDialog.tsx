import { Select, Text } from "@mantine/core";
import { useState } from "react";
import { useMay } from "../../api/currentUser";
import type { Scope } from "../../api/scopes";
import { useSettings } from "../../api/settings";
import { FormDialog } from "../../forms/FormDialog";
import { notify } from "../../shell/notices";
import { CLUSTER_FIELDS, ClusterFields } from "./ClusterForm";
import { readCluster, writeCluster } from "./clusters";
import { type KINDS, parentsFor, titleOf } from "./kinds";
import { useCreateScope } from "./requests";
import { NameInput } from "./ScopeDialogs";

interface NewProps {
  kind: (typeof KINDS)[number];
  parent: Scope;
  scopes: Scope[];
  onClose: () => void;
  onDone: (after?: Scope) => void;
}

export function NewScopeDialog({ kind: { kind, about }, parent, scopes, onClose, onDone }: NewProps) {
  const isCluster = kind === "cluster";
  const may = useMay();
  const settings = useSettings(true);
  const parents = parentsFor(kind, scopes).filter((scope) => may("admin", scope.scope));
  const isChoice = !parents.includes(parent);
  const [chosen, setChosen] = useState<string | null>(null);
  const inside = isChoice ? (chosen ?? settings.data?.default_cluster ?? undefined) : parent.scope;
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
      fields={["name", "parent", ...(isCluster ? CLUSTER_FIELDS : [])]}
      change={creating}
      onClose={onClose}
      onSubmit={() =>
        creating.mutate({
          ...(isCluster && writeCluster(cluster)),
          name: name.trim(),
          ...(inside && { parent: inside }),
        })
      }
    >
      <Text size="sm" c="dimmed">
        {about}
      </Text>
      <NameInput value={name} onChange={setName} />
      {isChoice && (
        <Select
          label={kind === "project" ? "Cluster or department" : "Cluster"}
          data={parents.map((scope) => scope.scope)}
          value={inside ?? null}
          onChange={setChosen}
          allowDeselect={false}
        />
      )}
      {isCluster && <ClusterFields draft={cluster} onChange={setCluster} />}
    </FormDialog>
  );
}

/** What a cluster says beside its name and parent. */
import { Select } from "@mantine/core";
import { useState } from "react";
import type { Place } from "../../api/places";
import { isProblem } from "../../api/problems";
import { ConflictDialog } from "../../forms/ConflictDialog";
import { FormDialog } from "../../forms/FormDialog";
import { useFinding } from "../../forms/findings";
import { Pairs } from "../../forms/Pairs";
import { TextField } from "../../forms/TextField";
import { notify } from "../../shell/notices";
import { type ClusterDraft, EXECUTORS, readCluster, SHARING, writeCluster } from "./clusters";
import { loadPlace, useEditPlace } from "./requests";

export const CLUSTER_FIELDS = [
  "executor",
  "gpu_resource",
  "gpu_sharing",
  "gpu_product_label",
  "gpu_types",
  "kai_queue",
  "python_image",
];

const TEXTS = {
  kai_queue: { label: "KAI queue", description: "The queue of pods with GPUs" },
  gpu_resource: { label: "GPU resource", description: "The resource that a whole device is" },
  gpu_product_label: {
    label: "GPU product label",
    description: "The label of nodes that carries the product",
  },
  python_image: { label: "Python image", description: "The image of Python functions that name none" },
};

interface EditProps {
  place: Place;
  onClose: () => void;
  onDone: (after?: Place) => void;
}

export function EditClusterDialog({ place, onClose, onDone }: EditProps) {
  // What the form began with: others may change the cluster meanwhile, and saving must then be refused.
  const [read, setRead] = useState(place);
  const [cluster, setCluster] = useState(() => readCluster(place));
  const editing = useEditPlace(read, (after) => {
    notify(`Saved ${place.name}`);
    onDone(after);
  });
  if (isProblem(editing.error, "changed")) {
    return (
      <ConflictDialog
        load={() => loadPlace(read)}
        began={read.revision}
        compare={(theirs) => ({
          theirs: writeCluster(readCluster(theirs)),
          mine: writeCluster(cluster),
        })}
        onKeepEditing={editing.reset}
        onTakeTheirs={(theirs) => {
          setRead(theirs);
          setCluster(readCluster(theirs));
          editing.reset();
        }}
        onSaveMine={(theirs) => {
          setRead(theirs);
          editing.mutate({ change: writeCluster(cluster), over: theirs });
        }}
      />
    );
  }
  return (
    <FormDialog
      title={`Edit ${place.name}`}
      deed="Save"
      fields={CLUSTER_FIELDS}
      change={editing}
      onClose={onClose}
      onSubmit={() => editing.mutate({ change: writeCluster(cluster) })}
    >
      <ClusterFields draft={cluster} onChange={setCluster} />
    </FormDialog>
  );
}

interface FieldsProps {
  draft: ClusterDraft;
  onChange: (draft: ClusterDraft) => void;
}

export function ClusterFields({ draft, onChange }: FieldsProps) {
  const finding = useFinding();
  const change = (part: Partial<ClusterDraft>) => onChange({ ...draft, ...part });
  const text = (name: keyof typeof TEXTS) => (
    <TextField
      {...TEXTS[name]}
      value={draft[name]}
      onChange={(typed) => change({ [name]: typed })}
      path={name}
    />
  );
  return (
    <>
      <Select
        label="Executor"
        description="What executes its runs"
        data={EXECUTORS}
        value={draft.executor}
        allowDeselect={false}
        onChange={(executor) => change({ executor: (executor ?? draft.executor) as "local" })}
        error={finding("executor")}
      />
      <Select
        label="GPU sharing"
        data={SHARING}
        value={draft.gpu_sharing}
        allowDeselect={false}
        onChange={(sharing) => change({ gpu_sharing: (sharing ?? draft.gpu_sharing) as "none" })}
        error={finding("gpu_sharing")}
      />
      {draft.gpu_sharing === "kai" && text("kai_queue")}
      {text("gpu_resource")}
      <Pairs
        title="GPU types"
        noun="GPU type"
        description="Names that users write, each with the products that suit, as the nodes are labelled"
        sides={["Type, such as A100", "Products, with commas"]}
        rows={draft.gpu_types}
        onChange={(gpu_types) => change({ gpu_types })}
        path="gpu_types"
      />
      {text("gpu_product_label")}
      {text("python_image")}
    </>
  );
}

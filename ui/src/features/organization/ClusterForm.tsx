/** The form fields for a cluster, apart from its name and parent. */
import { Select, Switch } from "@mantine/core";
import { useState } from "react";
import { isProblem } from "../../api/problems";
import type { Scope } from "../../api/scopes";
import { ConflictDialog } from "../../forms/ConflictDialog";
import { FormDialog } from "../../forms/FormDialog";
import { useFinding } from "../../forms/findings";
import { Pairs } from "../../forms/Pairs";
import { TextField } from "../../forms/TextField";
import { notify } from "../../shell/notices";
import {
  type ClusterDraft,
  CONNECTIONS,
  EXECUTORS,
  QUEUEING,
  readCluster,
  SHARING,
  writeCluster,
} from "./clusters";
import { loadScope, useEditScope } from "./requests";

export const CLUSTER_FIELDS = [
  "executor",
  "connection",
  "namespace",
  "create_namespaces",
  "server_url",
  "gpu_resource",
  "gpu_sharing",
  "gpu_product_label",
  "gpu_types",
  "queueing",
  "kai_queue",
  "kueue_queue",
  "autoscaled",
  "python_image",
];

const TEXTS = {
  namespace: {
    label: "Project namespaces",
    description: "Must contain {project} once, e.g. ai-{project}",
  },
  server_url: {
    label: "Server URL",
    description: "URL at which pods reach this server. Leave empty if they can't.",
  },
  kai_queue: { label: "KAI queue", description: "Queue for pods scheduled by KAI" },
  kueue_queue: { label: "Kueue queue", description: "Local queue in each project namespace" },
  gpu_resource: { label: "GPU resource", description: "Extended resource name for a whole GPU" },
  gpu_product_label: {
    label: "GPU product label",
    description: "Node label that contains the GPU product",
  },
  python_image: { label: "Python image", description: "Default image for Python functions" },
};

const CHOICES = {
  executor: { label: "Executor", description: "Where runs execute", data: EXECUTORS },
  connection: {
    label: "Connection",
    description: "How the server connects to the cluster",
    data: CONNECTIONS,
  },
  queueing: { label: "Queueing", description: "Scheduler that starts queued runs", data: QUEUEING },
  gpu_sharing: { label: "GPU sharing", data: SHARING },
};

const FLAGS = {
  create_namespaces: { label: "Create missing project namespaces" },
  autoscaled: { label: "Autoscaled", description: "Accept runs that don't fit on any current node" },
};

interface EditProps {
  record: Scope;
  onClose: () => void;
  onDone: (after?: Scope) => void;
}

export function EditClusterDialog({ record, onClose, onDone }: EditProps) {
  // The state when the dialog was opened. If someone else saves a change in the meantime, saving must fail.
  const [read, setRead] = useState(record);
  const [cluster, setCluster] = useState(() => readCluster(record));
  const editing = useEditScope(read, (after) => {
    notify(`Saved ${record.name}`);
    onDone(after);
  });
  if (isProblem(editing.error, "changed")) {
    return (
      <ConflictDialog
        load={() => loadScope(read)}
        baseRevision={read.revision}
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
      title={`Edit ${record.name}`}
      submitLabel="Save"
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
      onChange={(value) => change({ [name]: value })}
      path={name}
    />
  );
  const choice = (name: keyof typeof CHOICES) => (
    <Select
      {...CHOICES[name]}
      value={draft[name]}
      onChange={(chosen) => change({ [name]: chosen ?? draft[name] })}
      error={finding(name)}
    />
  );
  const flag = (name: keyof typeof FLAGS) => (
    <Switch
      {...FLAGS[name]}
      checked={draft[name]}
      onChange={(event) => change({ [name]: event.currentTarget.checked })}
      error={finding(name)}
    />
  );
  const isKubernetes = draft.executor === "kubernetes";
  return (
    <>
      {choice("executor")}
      {isKubernetes && (
        <>
          {choice("connection")}
          {text("namespace")}
          {flag("create_namespaces")}
          {text("server_url")}
          {choice("queueing")}
          {draft.queueing === "kueue" && text("kueue_queue")}
          {flag("autoscaled")}
        </>
      )}
      {choice("gpu_sharing")}
      {(draft.gpu_sharing === "kai" || (isKubernetes && draft.queueing === "kai")) && text("kai_queue")}
      {text("gpu_resource")}
      <Pairs
        title="GPU types"
        noun="GPU type"
        description="Names that users select, mapped to GPU products in node labels"
        columns={["Type, e.g. A100", "Products, comma-separated"]}
        rows={draft.gpu_types}
        onChange={(gpu_types) => change({ gpu_types })}
        path="gpu_types"
      />
      {text("gpu_product_label")}
      {text("python_image")}
    </>
  );
}

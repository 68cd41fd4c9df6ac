/** Converts the details of a cluster to form values and back. */
import type { Scope } from "../../api/scopes";
import type { ScopeBody } from "./requests";

export interface ClusterDraft {
  executor: "kubernetes" | "local";
  connection: "kubeconfig" | "in_cluster";
  namespace: string;
  create_namespaces: boolean;
  /** Empty if pods cannot reach the server. */
  server_url: string;
  gpu_resource: string;
  gpu_sharing: "none" | "kai" | "hami";
  gpu_product_label: string;
  /** Each type, with its products separated by commas. */
  gpu_types: { key: string; value: string }[];
  queueing: "none" | "kueue" | "kai";
  kai_queue: string;
  kueue_queue: string;
  autoscaled: boolean;
  python_image: string;
}

/** Defaults for settings that only Kubernetes clusters have. */
const KUBERNETES_DEFAULTS = {
  connection: "kubeconfig",
  namespace: "{project}",
  create_namespaces: true,
  server_url: "",
  queueing: "none",
  kueue_queue: "default",
  autoscaled: false,
} as const;

const DEFAULTS: ClusterDraft = {
  ...KUBERNETES_DEFAULTS,
  executor: "kubernetes",
  gpu_resource: "nvidia.com/gpu",
  gpu_sharing: "none",
  gpu_product_label: "nvidia.com/gpu.product",
  gpu_types: [],
  kai_queue: "default-queue",
  python_image: "python:3.12-slim",
};

export const EXECUTORS = [
  { value: "kubernetes", label: "Kubernetes" },
  { value: "local", label: "Local (server machine)" },
];

export const CONNECTIONS = [
  { value: "kubeconfig", label: "Kubeconfig" },
  { value: "in_cluster", label: "In-cluster service account" },
];

export const QUEUEING = [
  { value: "none", label: "None" },
  { value: "kueue", label: "Kueue" },
  { value: "kai", label: "KAI scheduler" },
];

export const SHARING = [
  { value: "none", label: "Whole GPUs only" },
  { value: "kai", label: "GPU memory shares (KAI scheduler)" },
  { value: "hami", label: "GPU memory shares (HAMi)" },
];

export function readCluster(record?: Scope): ClusterDraft {
  const { gpu_types, ...details } = (record?.details ?? {}) as Partial<Omit<ClusterDraft, "gpu_types">> & {
    gpu_types?: Record<string, string[]>;
  };
  const types = Object.entries(gpu_types ?? {});
  return {
    ...DEFAULTS,
    ...details,
    gpu_types: types.map(([key, products]) => ({ key, value: products.join(", ") })),
  };
}

export function writeCluster(draft: ClusterDraft): ScopeBody {
  const types = draft.gpu_types.filter((row) => row.key.trim() || row.value.trim());
  const isLocal = draft.executor === "local";
  return {
    ...draft,
    // The server rejects Kubernetes settings for a local cluster.
    ...(isLocal ? { ...KUBERNETES_DEFAULTS, storage_classes: null, runtime_classes: null } : {}),
    server_url: isLocal ? null : draft.server_url.trim() || null,
    gpu_types: Object.fromEntries(types.map((row) => [row.key.trim(), splitWords(row.value)])),
  };
}

function splitWords(text: string): string[] {
  return text
    .split(",")
    .map((word) => word.trim())
    .filter(Boolean);
}

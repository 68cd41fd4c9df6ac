/** What a cluster says beside its name and parent, as a form has it. */
import type { Scope } from "../../api/scopes";
import type { ScopeBody } from "./requests";

export interface ClusterDraft {
  executor: "kubernetes" | "local";
  connection: "kubeconfig" | "in_cluster";
  namespace: string;
  create_namespaces: boolean;
  /** Empty where pods do not reach the server. */
  server_url: string;
  gpu_resource: string;
  gpu_sharing: "none" | "kai" | "hami";
  gpu_product_label: string;
  /** A type, and its products with commas between them. */
  gpu_types: { key: string; value: string }[];
  queueing: "none" | "kueue" | "kai";
  kai_queue: string;
  kueue_queue: string;
  autoscaled: boolean;
  python_image: string;
}

/** What only Kubernetes has, where nothing is said. */
const OF_KUBERNETES = {
  connection: "kubeconfig",
  namespace: "{project}",
  create_namespaces: true,
  server_url: "",
  queueing: "none",
  kueue_queue: "default",
  autoscaled: false,
} as const;

/** What holds where nothing is said. */
const USUAL: ClusterDraft = {
  ...OF_KUBERNETES,
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
  { value: "local", label: "The machine of the server" },
];

export const CONNECTIONS = [
  { value: "kubeconfig", label: "With a kubeconfig" },
  { value: "in_cluster", label: "From within: the server runs in it" },
];

export const QUEUEING = [
  { value: "none", label: "None" },
  { value: "kueue", label: "Kueue" },
  { value: "kai", label: "The KAI scheduler" },
];

export const SHARING = [
  { value: "none", label: "Whole devices only" },
  { value: "kai", label: "Shares of memory, through the KAI scheduler" },
  { value: "hami", label: "Shares of memory, through HAMi" },
];

export function readCluster(record?: Scope): ClusterDraft {
  const { gpu_types, ...said } = (record?.details ?? {}) as Partial<Omit<ClusterDraft, "gpu_types">> & {
    gpu_types?: Record<string, string[]>;
  };
  const types = Object.entries(gpu_types ?? {});
  return {
    ...USUAL,
    ...said,
    gpu_types: types.map(([key, products]) => ({ key, value: products.join(", ") })),
  };
}

export function writeCluster(draft: ClusterDraft): ScopeBody {
  const types = draft.gpu_types.filter((row) => row.key.trim() || row.value.trim());
  const isLocal = draft.executor === "local";
  return {
    ...draft,
    ...(isLocal ? { ...OF_KUBERNETES, storage_classes: null, runtime_classes: null } : {}),
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

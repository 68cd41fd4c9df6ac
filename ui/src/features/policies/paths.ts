/** Paths that rules can refer to (src/fairlead/model/fields.py), with their labels. */

/** Amounts have bounds, texts have a list of allowed values, and sections can only be required or locked. */
export type PathKind = "amount" | "text" | "section";

export interface KnownPath {
  path: string;
  kind: PathKind;
  /** A noun in braces stands for the name at `*` in the path. */
  label: string;
  /** An example value. */
  example?: string;
  options?: string[];
}

const CORES = "8 or 500m";
const BYTES = "64Gi";
const SHARE = "50% or 10GB";

// A path that ends at the resource refers to its request; for "resources.gpu", that is the number of devices.
const AMOUNTS: [string, string, string][] = [
  ["resources.gpu", "GPUs", "2"],
  ["resources.gpu.devices", "GPU devices", "2"],
  ["resources.gpu.memory", "GPU memory", SHARE],
  ["resources.gpu.memory.request", "GPU memory request", SHARE],
  ["resources.gpu.memory.limit", "GPU memory limit", SHARE],
  ["resources.cpu", "CPU compute", CORES],
  ["resources.cpu.requests", "CPU compute request", CORES],
  ["resources.cpu.limits", "CPU compute limit", CORES],
  ["resources.mem", "CPU memory", BYTES],
  ["resources.mem.requests", "CPU memory request", BYTES],
  ["resources.mem.limits", "CPU memory limit", BYTES],
  ["resources.disk", "Disk", BYTES],
  ["resources.disk.requests", "Disk request", BYTES],
  ["resources.disk.limits", "Disk limit", BYTES],
  ["resources.shm", "Shared memory", BYTES],
  ["resources.extended.*", "{extended resource}", "2"],
  ["volumes.*.spec.size", "Size of {volume}", BYTES],
  ["replicas", "Replicas", "4"],
  ["deadline", "Deadline", "2h or 1d12h"],
  ["idle_timeout", "Idle timeout", "30m or 8h"],
  ["retries", "Retries", "3"],
  ["on_oom.grow", "Memory factor for retries", "1.5"],
  ["on_oom.max", "Memory cap for retries", BYTES],
  ["priority", "Priority", "10"],
  ["run_as_user", "User ID", "1000"],
  ["run_as_group", "Group ID", "1000"],
  ["fs_group", "Volume group (fsGroup)", "1000"],
];

const TEXTS: [string, string, string[]?][] = [
  ["action", "Action", ["job", "serve", "workspace"]],
  ["function.kind", "Function kind", ["python", "container"]],
  ["function.image", "Image"],
  ["function.pull_policy", "Image pull policy", ["Always", "IfNotPresent", "Never"]],
  ["profile", "Compute resource"],
  ["template", "Template"],
  ["resources.gpu.type", "GPU type"],
  ["resources.gpu.mig", "MIG profile"],
  ["runtime_class", "Runtime class"],
  ["priority_class", "Priority class"],
  ["node_selector.*", "{node label}"],
  ["envs.*", "{variable}"],
  [
    "volumes.*.volume_type",
    "Type of {volume}",
    ["persistent_volume_claim", "shared_volume", "config_map", "secret", "empty_dir", "ephemeral"],
  ],
  ["volumes.*.mount_path", "Mount path of {volume}"],
  ["volumes.*.sub_path", "Subpath of {volume}"],
  ["volumes.*.read_only", "Read-only flag of {volume}", ["true", "false"]],
  ["volumes.*.spec.storage_class", "Storage class of {volume}"],
  ["volumes.*.spec.claim_name", "Claim of {volume}"],
  ["volumes.*.spec.name", "Source of {volume}"],
  ["volumes.*.spec.medium", "Medium of {volume}"],
];

const SECTIONS: [string, string][] = [
  ["function.pull_secrets", "Pull secrets"],
  ["function.pull_secrets.*", "{pull secret}"],
  ["on_oom", "Retry with more memory"],
  ["resources", "All resources"],
  ["resources.extended", "Extended resources"],
  ["node_selector", "Node selector"],
  ["tolerations", "Tolerations"],
  ["tolerations.*", "{toleration}"],
  ["affinity", "Affinity"],
  ["affinity.*", "{affinity type}"],
  ["volumes", "Volumes"],
  ["volumes.*", "{volume}"],
  ["secrets", "Secrets"],
  ["secrets.*", "{secret}"],
  ["envs", "Environment variables"],
];

export const KNOWN: KnownPath[] = [
  ...AMOUNTS.map(([path, label, example]) => ({ path, kind: "amount" as const, label, example })),
  ...TEXTS.map(([path, label, options]) => ({ path, kind: "text" as const, label, options })),
  ...SECTIONS.map(([path, label]) => ({ path, kind: "section" as const, label })),
];

const TITLES: Record<PathKind, string> = {
  amount: "Amounts (at least, at most)",
  text: "Values (one of)",
  section: "Sections (required, locked)",
};

/** Known paths in groups, for the autocomplete field. */
export const CHOICES = (Object.keys(TITLES) as PathKind[]).map((kind) => ({
  group: TITLES[kind],
  items: KNOWN.filter((known) => known.kind === kind).map((known) => known.path),
}));

/** Finds a known path. A name can take the place of `*`, as in "envs.HF_HOME". */
export function findPath(path: string): KnownPath | undefined {
  return KNOWN.find((known) => known.path === path) ?? KNOWN.find((known) => nameIn(known.path, path));
}

/** Whether values at a path are amounts of bytes. */
export function isByteAmount(path: string): boolean {
  return findPath(path)?.example === BYTES;
}

/** "resources.mem.limits" is "CPU memory limit", "envs.HF_HOME" is "Variable HF_HOME". */
export function labelOf(path: string): string {
  const known = findPath(path);
  if (!known) return path;
  const name = nameIn(known.path, path);
  const label = known.label.replace(/\{(.+)\}/, (_, noun) =>
    name === "*" ? `every ${noun}` : `${noun} ${name}`,
  );
  return label.charAt(0).toUpperCase() + label.slice(1);
}

/** The name in place of the `*` of a known path, or undefined if the path does not match. Volume names have no dots. */
function nameIn(known: string, path: string): string | undefined {
  const [head, tail] = known.split("*");
  if (tail === undefined || !path.startsWith(head!) || !path.endsWith(tail)) return undefined;
  const name = path.slice(head!.length, path.length - tail.length);
  const isName = name !== "" && !(known.startsWith("volumes.") && name.includes("."));
  return isName ? name : undefined;
}

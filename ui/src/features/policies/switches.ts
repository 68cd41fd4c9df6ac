/** The switches of a policy, with their labels and descriptions. */

interface Choice {
  value: string;
  label: string;
}

export interface Switch {
  name: SwitchName;
  title: string;
  about: string;
  /** Undefined if the value is a list of names. */
  choices?: Choice[];
  /** An example entry, if the value is a list of names. */
  example?: string;
}

const YES_NO: Choice[] = [
  { value: "true", label: "Allow" },
  { value: "false", label: "Forbid" },
];

export const FLAGS = [
  "existing_volumes",
  "compute_resource",
  "allow_root",
  "gpu_memory_limits",
  "never_fits",
  "network",
] as const;
export const LISTS = ["storage_classes", "registries"] as const;
export type SwitchName = (typeof FLAGS)[number] | (typeof LISTS)[number];

export const SWITCHES: Switch[] = [
  {
    name: "compute_resource",
    title: "Compute resource",
    about: "Whether runs must use a compute resource.",
    choices: [
      { value: "required", label: "Required" },
      { value: "optional", label: "Optional" },
    ],
  },
  {
    name: "existing_volumes",
    title: "Existing volumes",
    about: "Whether runs may mount existing shared volumes and config maps.",
    choices: [
      { value: "allow", label: "Allow" },
      { value: "block", label: "Block" },
    ],
  },
  {
    name: "allow_root",
    title: "Root user",
    about: "Whether runs may use user or group ID 0.",
    choices: YES_NO,
  },
  {
    name: "gpu_memory_limits",
    title: "GPU memory limits",
    about: "Whether a GPU memory limit may exceed the request.",
    choices: YES_NO,
  },
  {
    name: "never_fits",
    title: "Runs too large for any node",
    about: "Whether to reject these runs or only warn about them.",
    choices: [
      { value: "refuse", label: "Reject" },
      { value: "warn", label: "Warn" },
    ],
  },
  {
    name: "network",
    title: "Network of runs",
    about: "Whether runs on the server's machine have network access.",
    choices: [
      { value: "host", label: "Host" },
      { value: "none", label: "None" },
    ],
  },
  {
    name: "storage_classes",
    title: "Storage classes",
    about: "Allowed storage classes for volumes with a size.",
    example: "e.g. fast-ssd",
  },
  {
    name: "registries",
    title: "Registries",
    about: "Allowed image name prefixes, matched by path segment.",
    example: "e.g. registry.example.org/ai",
  },
];

const DESCRIPTIONS: Record<string, string> = {
  "compute_resource required": "Runs must use a compute resource",
  "compute_resource optional": "Runs may omit the compute resource",
  "existing_volumes allow": "Runs may mount existing volumes and config maps",
  "existing_volumes block": "Runs may not mount existing volumes or config maps",
  "allow_root true": "Runs may use the root user (ID 0)",
  "allow_root false": "Runs may not use the root user (ID 0)",
  "gpu_memory_limits true": "GPU memory limits may exceed requests",
  "gpu_memory_limits false": "GPU memory limits may not exceed requests",
  "never_fits refuse": "Runs too large for any node are rejected",
  "never_fits warn": "Runs too large for any node wait, with a warning",
  "network host": "Runs use the machine's network",
  "network none": "Runs have no network access",
  "storage_classes null": "Volumes may use any storage class",
  "storage_classes ": "No storage class is allowed",
  "registries null": "Images may come from any registry",
  "registries ": "No registry is allowed",
};

/** Describes the value of a switch in a sentence. */
export function describeSwitch(name: string, value: unknown): string {
  const known = DESCRIPTIONS[`${name} ${value}`];
  if (known) return known;
  const names = Array.isArray(value) ? value.join(", ") : String(value);
  if (name === "storage_classes") return `Allowed storage classes: ${names}`;
  if (name === "registries") return `Allowed registries: ${names}`;
  return `${name}: ${names}`;
}

/** What may be done at all: the switches of a policy, in words. */

interface Choice {
  value: string;
  label: string;
}

export interface Switch {
  name: SwitchName;
  title: string;
  about: string;
  /** Left out: it is a list of names. */
  choices?: Choice[];
  /** Of a list: how an entry looks. */
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
] as const;
export const LISTS = ["storage_classes", "registries"] as const;
export type SwitchName = (typeof FLAGS)[number] | (typeof LISTS)[number];

export const SWITCHES: Switch[] = [
  {
    name: "compute_resource",
    title: "Compute resource",
    about: "Whether every run must name one.",
    choices: [
      { value: "required", label: "Required" },
      { value: "optional", label: "Optional" },
    ],
  },
  {
    name: "existing_volumes",
    title: "Existing volumes",
    about: "Whether runs may mount shared volumes and config maps that are there already.",
    choices: [
      { value: "allow", label: "Allow" },
      { value: "block", label: "Block" },
    ],
  },
  {
    name: "allow_root",
    title: "Root",
    about: "Whether runs may have the id 0 as user or group.",
    choices: YES_NO,
  },
  {
    name: "gpu_memory_limits",
    title: "GPU memory limits",
    about: "Whether a GPU memory limit may be over its request.",
    choices: YES_NO,
  },
  {
    name: "never_fits",
    title: "Runs that never fit",
    about: "Whether a run that no node could take, even an empty one, is refused or only warned of.",
    choices: [
      { value: "refuse", label: "Refuse" },
      { value: "warn", label: "Warn" },
    ],
  },
  {
    name: "storage_classes",
    title: "Storage classes",
    about: "Volumes with a size must name one of these.",
    example: "such as fast-ssd",
  },
  {
    name: "registries",
    title: "Registries",
    about: "Images must come from one of these: the beginning of their name, up to a slash.",
    example: "such as registry.example.org/ai",
  },
];

const SAID: Record<string, string> = {
  "compute_resource required": "Every run names a compute resource",
  "compute_resource optional": "A run need not name a compute resource",
  "existing_volumes allow": "Runs may mount existing volumes and config maps",
  "existing_volumes block": "Runs may not mount existing volumes or config maps",
  "allow_root true": "Runs may be root (id 0)",
  "allow_root false": "Runs may not be root (id 0)",
  "gpu_memory_limits true": "A GPU memory limit may be over its request",
  "gpu_memory_limits false": "A GPU memory limit may not be over its request",
  "never_fits refuse": "A run that no node could ever take is refused",
  "never_fits warn": "A run that no node could ever take is kept waiting, with a warning",
  "storage_classes null": "Volumes may use any storage class",
  "storage_classes ": "No storage class is left to use",
  "registries null": "Images may come from any registry",
  "registries ": "No registry is left to use",
};

/** A switch and its value as a sentence. */
export function describeSwitch(name: string, value: unknown): string {
  const known = SAID[`${name} ${value}`];
  if (known) return known;
  const names = Array.isArray(value) ? value.join(", ") : String(value);
  if (name === "storage_classes") return `Volumes with a size use one of ${names}`;
  if (name === "registries") return `Images come from ${names}`;
  return `${name} is ${names}`;
}

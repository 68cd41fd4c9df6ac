/** Drafts of requirements, with every field as text. Values that the form does not show are preserved. */
import { parse as parseYaml } from "yaml";
import { type Amount, joinAmount, splitAmount } from "../quantities";
import { keepUntouched, omitEmpty, type Tree, text } from "../trees";
import {
  type Pair,
  readPairs,
  readToleration,
  readVolume,
  type TolerationDraft,
  type VolumeDraft,
  writeMapping,
  writePairs,
  writeToleration,
  writeVolume,
} from "./rows";

/** "untouched" means "unlimited" if there is a request. Otherwise, no limit is sent. */
export type LimitMode = "untouched" | "unlimited" | "limit" | "policy";

export interface BoundedDraft {
  request: Amount;
  mode: LimitMode;
  limit: Amount;
}

export type GpuPart = "whole" | "share" | "mig";

export interface GpuDraft {
  devices: string;
  type: string;
  part: GpuPart;
  request: Amount;
  hasLimit: boolean;
  limit: Amount;
  mig: string;
}

export interface RequirementsDraft {
  cpu: BoundedDraft;
  mem: BoundedDraft;
  disk: BoundedDraft;
  gpu: GpuDraft;
  shm: "" | "true" | "false" | "size";
  shmSize: Amount;
  extended: Pair[];
  node_selector: Pair[];
  tolerations: TolerationDraft[];
  affinity: string;
  volumes: VolumeDraft[];
  secrets: string[];
  envs: Pair[];
  runtime_class: string;
  priority_class: string;
  run_as_user: string;
  run_as_group: string;
  fs_group: string;
  profile: string;
  /** The requirements that the draft was created from. */
  read: Tree;
}

/** Creates a draft. `defaultMode` is the limit mode for resources that the requirements do not set. */
export function readDraft(requirements: Tree = {}, defaultMode: LimitMode = "untouched"): RequirementsDraft {
  const resources: Tree = requirements.resources ?? {};
  return {
    cpu: readBounded(resources.cpu, "", defaultMode),
    mem: readBounded(resources.mem, "Gi", defaultMode),
    disk: readBounded(resources.disk, "Gi", defaultMode),
    gpu: readGpu(resources.gpu),
    shm: readSharedMemory(resources.shm),
    shmSize: splitAmount(typeof resources.shm === "string" ? resources.shm : "", "Gi"),
    extended: readPairs(resources.extended),
    node_selector: readPairs(requirements.node_selector),
    tolerations: (requirements.tolerations ?? []).map(readToleration),
    affinity: requirements.affinity ? JSON.stringify(requirements.affinity, null, 2) : "",
    volumes: (requirements.volumes ?? []).map(readVolume),
    secrets: requirements.secrets ?? [],
    envs: readPairs(requirements.envs),
    runtime_class: requirements.runtime_class ?? "",
    priority_class: requirements.priority_class ?? "",
    run_as_user: text(requirements.run_as_user),
    run_as_group: text(requirements.run_as_group),
    fs_group: text(requirements.fs_group),
    profile: requirements.profile ?? "",
    read: requirements,
  };
}

/** Converts the draft to requirements. Throws if the affinity is not valid YAML (JSON is also YAML). */
export function writeDraft(draft: RequirementsDraft): Tree {
  return omitEmpty(keepUntouched(draft.read, write(readDraft(draft.read)), write(draft)));
}

/** Returns the request body or the errors in the draft. `path` is the path of the requirements in the body. */
export function tryWriting<Body>(path: string, write: () => Body) {
  try {
    return { body: write(), errors: [] };
  } catch (error) {
    const message = `invalid YAML or JSON: ${(error as Error).message}`;
    return { body: null, errors: [{ path: `${path}.affinity`, rule: "yaml", message }] };
  }
}

function write(draft: RequirementsDraft): Tree {
  const resources = omitEmpty({
    cpu: writeBounded(draft.cpu),
    mem: writeBounded(draft.mem),
    disk: writeBounded(draft.disk),
    gpu: writeGpu(draft.gpu),
    shm: writeSharedMemory(draft),
    extended: writeMapping(draft.extended),
  });
  return omitEmpty({
    profile: draft.profile,
    resources,
    node_selector: writePairs(draft.node_selector, "key"),
    tolerations: draft.tolerations.map(writeToleration),
    affinity: draft.affinity.trim() ? parseAffinity(draft.affinity) : undefined,
    volumes: draft.volumes.map(writeVolume),
    secrets: draft.secrets,
    envs: writePairs(draft.envs, "name"),
    runtime_class: draft.runtime_class.trim(),
    priority_class: draft.priority_class.trim(),
    run_as_user: draft.run_as_user.trim(),
    run_as_group: draft.run_as_group.trim(),
    fs_group: draft.fs_group.trim(),
  });
}

/** Caches parsed text: forms convert their draft on every keystroke, and parsing a long affinity is slow. */
const parsedTexts = new Map<string, unknown>();

function parseAffinity(text: string): unknown {
  if (!parsedTexts.has(text)) {
    if (parsedTexts.size > 3) parsedTexts.clear();
    parsedTexts.set(text, parseYaml(text));
  }
  return parsedTexts.get(text);
}

function readBounded(amount: Tree | undefined, unit: string, defaultMode: LimitMode): BoundedDraft {
  const limit = amount?.limits;
  const mode = !amount
    ? defaultMode
    : limit === "unlimited"
      ? "unlimited"
      : limit === undefined
        ? "policy"
        : "limit";
  const request = splitAmount(amount?.requests, unit);
  return { request, mode, limit: splitAmount(mode === "limit" ? limit : "", request.unit) };
}

function writeBounded(draft: BoundedDraft): Tree | undefined {
  const requests = joinAmount(draft.request) || undefined;
  switch (draft.mode) {
    case "untouched":
      return requests ? { requests, limits: "unlimited" } : undefined;
    case "unlimited":
      return omitEmpty({ requests, limits: "unlimited" });
    case "policy":
      return requests ? { requests } : undefined;
    case "limit":
      // Sends the limit even if it is empty, so that the server reports it.
      return { ...omitEmpty({ requests }), limits: joinAmount(draft.limit) };
  }
}

function readGpu(gpu: Tree | undefined): GpuDraft {
  const memory = typeof gpu?.memory === "object" ? gpu.memory : { request: gpu?.memory };
  // A limit without a request also sets the request.
  const request = splitAmount(memory.request ?? memory.limit, "%");
  return {
    devices: text(gpu?.devices),
    type: gpu?.type ?? "",
    part: gpu?.mig ? "mig" : request.number === "" ? "whole" : "share",
    request,
    hasLimit: memory.request !== undefined && memory.limit !== undefined && memory.limit !== memory.request,
    limit: splitAmount(memory.limit, request.unit),
    mig: gpu?.mig ?? "",
  };
}

function writeGpu(draft: GpuDraft): Tree | undefined {
  const devices = draft.devices.trim();
  // Fraction fields are shown only for one device. Empty fields are sent as a space, so that the server reports them.
  const isOne = devices === "1";
  const request = joinAmount(draft.request) || " ";
  const share = draft.hasLimit ? { request, limit: joinAmount(draft.limit) } : request;
  const memory = draft.part === "share" && isOne ? share : undefined;
  const mig = draft.part === "mig" && isOne ? draft.mig.trim() || " " : undefined;
  return omitEmpty({ devices, type: draft.type.trim(), memory, mig });
}

function readSharedMemory(shm: unknown): RequirementsDraft["shm"] {
  if (shm === undefined || shm === null) return "";
  return typeof shm === "boolean" ? `${shm}` : "size";
}

function writeSharedMemory(draft: RequirementsDraft): boolean | string | undefined {
  if (draft.shm === "") return undefined;
  // An empty value would be omitted, so a space is sent to make the server report the missing size.
  return draft.shm === "size" ? joinAmount(draft.shmSize) || " " : draft.shm === "true";
}

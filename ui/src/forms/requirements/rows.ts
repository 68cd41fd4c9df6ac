/** Drafts of the list fields in requirements: pairs, tolerations and volumes. */
import { omitEmpty, type Tree, text } from "../trees";

export interface Pair {
  key: string;
  value: string;
}

export interface TolerationDraft {
  key: string;
  operator: "Exists" | "Equal";
  value: string;
  effect: string;
  seconds: string;
}

export interface VolumeDraft {
  name: string;
  volume_type: string;
  mount_path: string;
  read_only: boolean;
  sub_path: string;
  spec: Record<string, string>;
}

/** Reads pairs from a mapping or a list: {A: 1}, [{name: A, value: 1}] or [{key: A, value: 1}]. */
export function readPairs(pairs: Tree | Tree[] | undefined): Pair[] {
  if (Array.isArray(pairs))
    return pairs.map((pair) => ({ key: pair.key ?? pair.name, value: text(pair.value) }));
  return Object.entries(pairs ?? {}).map(([key, value]) => ({ key, value: text(value) }));
}

/** Returns a list, so that the server can report duplicate and missing names. Omits empty rows. */
export function writePairs(pairs: Pair[], key: "key" | "name"): Tree[] {
  return filterFilled(pairs).map((pair) => ({ [key]: pair.key.trim(), value: pair.value }));
}

export function writeMapping(pairs: Pair[]): Record<string, string> {
  return Object.fromEntries(filterFilled(pairs).map((pair) => [pair.key.trim(), pair.value]));
}

function filterFilled(pairs: Pair[]): Pair[] {
  return pairs.filter((pair) => pair.key.trim() || pair.value);
}

export function readToleration(toleration: Tree): TolerationDraft {
  return {
    key: toleration.key ?? "",
    operator: toleration.operator ?? "Equal",
    value: toleration.value ?? "",
    effect: toleration.effect ?? "",
    seconds: text(toleration.tolerationSeconds),
  };
}

export function writeToleration(draft: TolerationDraft): Tree {
  const value = draft.operator === "Equal" ? draft.value : "";
  return omitEmpty({
    key: draft.key.trim(),
    operator: draft.operator,
    value,
    effect: draft.effect,
    tolerationSeconds: draft.seconds,
  });
}

export function readVolume(volume: Tree): VolumeDraft {
  const spec = Object.fromEntries(
    Object.entries(volume.spec ?? {}).map(([key, value]) => [key, text(value)]),
  );
  return {
    name: volume.name ?? "",
    volume_type: volume.volume_type,
    mount_path: volume.mount_path ?? "",
    read_only: volume.read_only ?? false,
    sub_path: volume.sub_path ?? "",
    spec,
  };
}

export function writeVolume(draft: VolumeDraft): Tree {
  const { read_only, ...rest } = draft;
  return omitEmpty({ ...rest, spec: omitEmpty(draft.spec), read_only: read_only || undefined });
}

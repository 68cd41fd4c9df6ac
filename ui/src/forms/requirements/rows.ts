/** What requirements have several of, while it is edited: pairs, tolerations, volumes. */
import { said, type Tree, text } from "../trees";

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

/** From a mapping, or from a list: {A: 1}, [{name: A, value: 1}] and [{key: A, value: 1}] say the same. */
export function readPairs(pairs: Tree | Tree[] | undefined): Pair[] {
  if (Array.isArray(pairs))
    return pairs.map((pair) => ({ key: pair.key ?? pair.name, value: text(pair.value) }));
  return Object.entries(pairs ?? {}).map(([key, value]) => ({ key, value: text(value) }));
}

/** As a list, in which the server finds what is there twice or has no name; only empty rows are left out. */
export function writePairs(pairs: Pair[], key: "key" | "name"): Tree[] {
  return filled(pairs).map((pair) => ({ [key]: pair.key.trim(), value: pair.value }));
}

export function writeMapping(pairs: Pair[]): Record<string, string> {
  return Object.fromEntries(filled(pairs).map((pair) => [pair.key.trim(), pair.value]));
}

function filled(pairs: Pair[]): Pair[] {
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
  return said({
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
  return said({ ...rest, spec: said(draft.spec), read_only: read_only || undefined });
}

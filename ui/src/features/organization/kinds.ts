/** What stands where: platform > cluster > department > project. */
import type { Scope } from "../../api/scopes";

export type Kind = "cluster" | "department" | "project";

const RANKS: Record<string, number> = { platform: 0, cluster: 1, department: 2, project: 3 };

export const KINDS: { kind: Kind; title: string; about: string }[] = [
  { kind: "cluster", title: "Cluster", about: "Where runs execute, and how it deals out GPUs." },
  {
    kind: "department",
    title: "Department",
    about: "A part of the organization that shares policies, quotas and compute resources.",
  },
  { kind: "project", title: "Project", about: "Where functions, secrets, volumes and runs live." },
];

/** The kinds that may stand below a place of a kind: a parent stands further up. */
export function kindsBelow(kind: string) {
  return KINDS.filter((below) => mayStandBelow(below.kind, kind));
}

export function mayStandBelow(kind: string, parent: string): boolean {
  return (RANKS[parent] ?? 0) < (RANKS[kind] ?? 0);
}

export function titleOf(record: Scope): string {
  return record.kind === "platform" ? "Platform" : record.name;
}

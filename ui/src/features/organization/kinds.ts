/** The kinds of scopes: platform > cluster > department > project. */
import type { Scope } from "../../api/scopes";

export type Kind = "cluster" | "department" | "project";

const RANKS: Record<string, number> = { platform: 0, cluster: 1, department: 2, project: 3 };

export const KINDS: { kind: Kind; title: string; about: string }[] = [
  { kind: "cluster", title: "Cluster", about: "Connect a cluster to run workloads on." },
  {
    kind: "department",
    title: "Department",
    about: "Group projects that share policies, quotas and compute resources.",
  },
  { kind: "project", title: "Project", about: "Create a space for functions, secrets, volumes and runs." },
];

/** The kinds of scopes that can be children of the given kind. */
export function kindsBelow(kind: string) {
  return KINDS.filter((below) => isAllowedBelow(below.kind, kind));
}

export function isAllowedBelow(kind: string, parent: string): boolean {
  return (RANKS[parent] ?? 0) < (RANKS[kind] ?? 0);
}

/** The scopes that can contain a department or project. The platform can only do so if it has no clusters. */
export function parentsFor(kind: string, scopes: Scope[]): Scope[] {
  const hasClusters = scopes.some((scope) => scope.kind === "cluster");
  return scopes.filter(
    (scope) =>
      isAllowedBelow(kind, scope.kind) && !(hasClusters && kind !== "cluster" && scope.kind === "platform"),
  );
}

export function titleOf(record: Scope): string {
  return record.kind === "platform" ? "Platform" : record.name;
}

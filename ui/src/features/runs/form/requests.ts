/** Loads the options for the run form: a project's functions, secrets, templates and compute resources. */

import { useMay } from "../../../api/currentUser";
import { useAll } from "../../../api/lists";
import { ancestorsOf, useScopes } from "../../../api/scopes";

const WORKLOAD_TYPES: Record<string, string> = { job: "training", serve: "inference" };

function typeOf(action: string): string {
  return WORKLOAD_TYPES[action] ?? action;
}

export function useSecretNames(project: string): string[] {
  const secrets = useAll("/api/v1/projects/{project}/secrets", {}, { project });
  return (secrets.data ?? []).map((secret) => secret.name);
}

export function useFunctionsOf(project: string) {
  return useAll("/api/v1/projects/{project}/functions", {}, { project });
}

export function useTemplatesOf(project: string) {
  const isAvailable = useIsAvailable(project);
  return (useAll("/api/v1/templates").data ?? []).filter(isAvailable);
}

/** Returns the compute resources for an action's workload type, or undefined while loading. */
export function useComputeResourcesOf(project: string, action: string) {
  const isAvailable = useIsAvailable(project);
  const type = typeOf(action);
  return useAll("/api/v1/compute-resources").data?.filter(
    (item) => isAvailable(item) && (!item.workload_types || item.workload_types.includes(type as "training")),
  );
}

/** Returns the project and its parent scopes that the user can edit, nearest first. */
export function useScopesAbove(project: string): string[] {
  const may = useMay();
  const scopes = useScopes();
  const own = `project/${project}`;
  return [own, ...ancestorsOf(scopes.data ?? [], own)].filter((scope) => may("editor", scope));
}

function useIsAvailable(project: string) {
  const scopes = useScopes();
  const own = `project/${project}`;
  const visible = [own, ...ancestorsOf(scopes.data ?? [], own), "platform"];
  return (item: { scope: string; archived: boolean }) => !item.archived && visible.includes(item.scope);
}

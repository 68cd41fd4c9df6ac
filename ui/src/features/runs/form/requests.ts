/** What a form of a run offers: functions and secrets of a project, templates and compute resources in its reach. */

import { useMay } from "../../../api/currentUser";
import { useAll } from "../../../api/lists";
import { ancestorsOf, useScopes } from "../../../api/scopes";

const WORKLOAD_TYPES: Record<string, string> = { job: "training", serve: "inference" };

function typeOf(action: string): string {
  return WORKLOAD_TYPES[action] ?? action;
}

export function useSecretNames(project: string): string[] {
  const found = useAll("/api/v1/projects/{project}/secrets", {}, { project });
  return (found.data ?? []).map((secret) => secret.name);
}

export function useFunctionsOf(project: string) {
  return useAll("/api/v1/projects/{project}/functions", {}, { project });
}

export function useTemplatesOf(project: string) {
  const isOffered = useIsOffered(project);
  return (useAll("/api/v1/templates").data ?? []).filter(isOffered);
}

/** Those for the type of workload that an action is; nothing as long as they are not known. */
export function useComputeResourcesOf(project: string, action: string) {
  const isOffered = useIsOffered(project);
  const type = typeOf(action);
  return useAll("/api/v1/compute-resources").data?.filter(
    (item) => isOffered(item) && (!item.workload_types || item.workload_types.includes(type as "training")),
  );
}

/** The places from a project upwards where one may offer, the nearest first. */
export function useScopesAbove(project: string): string[] {
  const may = useMay();
  const scopes = useScopes();
  const here = `project/${project}`;
  return [here, ...ancestorsOf(scopes.data ?? [], here)].filter((scope) => may("editor", scope));
}

function useIsOffered(project: string) {
  const scopes = useScopes();
  const here = `project/${project}`;
  const reach = [here, ...ancestorsOf(scopes.data ?? [], here), "platform"];
  return (item: { scope: string; archived: boolean }) => !item.archived && reach.includes(item.scope);
}

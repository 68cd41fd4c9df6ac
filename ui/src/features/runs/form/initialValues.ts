/** Initial values for the run form: from the URL, an earlier run, and the last used project. */
import { useLocalStorage } from "@mantine/hooks";
import { useSearchParams } from "wouter";
import { useOwnProjects } from "../../../api/currentUser";
import { type Request, usePlanOf, useRequestOf, useRun } from "../../../api/runs";
import { splitScope, useScopes } from "../../../api/scopes";
import { merge } from "./drafts";
import { requestMemory } from "./memory";
import { useComputeResourcesOf } from "./requests";

export interface InitialValues {
  project: string;
  request: Request;
  /** The earlier run that is submitted again. */
  from?: { id: string; function: string };
  /** Explains values that the user may not expect. */
  note?: string;
}

export function useInitialValues() {
  const [params] = useSearchParams();
  const from = params.get("from");
  const run = useRun(from);
  const request = useRequestOf(from);
  const mem = from && params.get("mem");
  const plan = usePlanOf(mem ? from : null);
  const scopes = useScopes();
  const projects = useOwnProjects();
  const [last] = useLastProject();
  // Ignores errors after a successful load: if the earlier run is deleted in the meantime, the form keeps its values.
  const failed = [run, request, plan, scopes].find((part) => !part.data && part.error);
  const error = failed?.error ?? null;
  const retry = () => void Promise.all([scopes.refetch(), from && run.refetch(), from && request.refetch()]);
  const runProject = run.data && splitScope(run.data.scope).name;
  const computeResources = useComputeResourcesOf(runProject ?? "", run.data?.action ?? "job");
  const isLoaded =
    projects && (!from || (run.data && request.data)) && (!mem || (plan.data && computeResources));
  if (error || !isLoaded) return { error, retry, projects, initialValues: null };
  const requestedProject = params.get("project") ?? runProject;
  const preferred = requestedProject ?? last;
  const initialRequest = readRequest(params, request.data);
  const initialValues: InitialValues = {
    project: projects.find((name) => name === preferred) ?? projects[0] ?? "",
    ...(mem && plan.data && computeResources
      ? requestMemory(initialRequest, mem, plan.data, computeResources)
      : { request: initialRequest }),
    from: run.data && { id: run.data.id, function: run.data.function },
  };
  if (requestedProject && requestedProject !== initialValues.project) {
    const missing = `Project ${requestedProject} does not exist, or you cannot submit runs there. Project ${initialValues.project} is selected instead.`;
    initialValues.note = [missing, initialValues.note].filter(Boolean).join(" ");
  }
  return { error: null, retry, projects, initialValues };
}

export function useLastProject() {
  return useLocalStorage<string | null>({
    key: "fairlead.project",
    defaultValue: null,
    getInitialValueInEffect: false,
  });
}

function readRequest(params: URLSearchParams, request: Request = {}): Request {
  const [name, template] = ["function", "template"].map((key) => params.get(key));
  return merge(request, {
    ...(name && { function: name }),
    ...(template && { template }),
  });
}

/** What a form of a run begins with: what the address says, what an earlier run asked for, the project of last time. */
import { useLocalStorage } from "@mantine/hooks";
import { useSearchParams } from "wouter";
import { useOwnProjects } from "../../../api/currentUser";
import { type Request, usePlanOf, useRequestOf, useRun } from "../../../api/runs";
import { splitScope, useScopes } from "../../../api/scopes";
import { merge } from "./drafts";
import { grow } from "./memory";
import { useComputeResourcesOf } from "./requests";

export interface Start {
  project: string;
  request: Request;
  /** The run that it asks for again. */
  from?: { id: string; function: string };
  /** What is not as one may expect. */
  note?: string;
}

export function useStart() {
  const [said] = useSearchParams();
  const from = said.get("from");
  const run = useRun(from);
  const asked = useRequestOf(from);
  const mem = from && said.get("mem");
  const plan = usePlanOf(mem ? from : null);
  const scopes = useScopes();
  const projects = useOwnProjects();
  const [last] = useLastProject();
  // What was read stays: a run that is deleted meanwhile must not take along what was typed.
  const missed = [run, asked, plan, scopes].find((part) => !part.data && part.error);
  const error = missed?.error ?? null;
  const retry = () => void Promise.all([scopes.refetch(), from && run.refetch(), from && asked.refetch()]);
  const own = run.data && splitScope(run.data.scope).name;
  const offered = useComputeResourcesOf(own ?? "", run.data?.action ?? "job");
  const isThere = projects && (!from || (run.data && asked.data)) && (!mem || (plan.data && offered));
  if (error || !isThere) return { error, retry, projects, start: null };
  const named = said.get("project") ?? own;
  const wanted = named ?? last;
  const begun = begin(said, asked.data);
  const start: Start = {
    project: projects.find((name) => name === wanted) ?? projects[0] ?? "",
    ...(mem && plan.data && offered ? grow(begun, mem, plan.data, offered) : { request: begun }),
    from: run.data && { id: run.data.id, function: run.data.function },
  };
  if (named && named !== start.project) {
    const missing = `You may not submit runs in ${named}, or it is not there: ${start.project} is chosen.`;
    start.note = [missing, start.note].filter(Boolean).join(" ");
  }
  return { error: null, retry, projects, start };
}

export function useLastProject() {
  return useLocalStorage<string | null>({
    key: "fairlead.project",
    defaultValue: null,
    getInitialValueInEffect: false,
  });
}

function begin(said: URLSearchParams, asked: Request = {}): Request {
  const [name, template] = ["function", "template"].map((key) => said.get(key));
  return merge(asked, {
    ...(name && { function: name }),
    ...(template && { template }),
  });
}

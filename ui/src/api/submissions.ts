/** Submits runs as previewed. If the plan has changed since, returns the changes instead of submitting the run. */
import { useChange } from "./changes";
import { client, type Schemas, unwrap } from "./client";
import { comparePlans, type Difference, type Plan } from "./plans";
import { isProblem, type Problem, ProblemError, Unreachable, violationsOf } from "./problems";
import { fetchPreview, type Request, type Run } from "./runs";

interface Input {
  project: string;
  request: Request;
  /** The plan that the user sees. Without it, the server accepts any plan. */
  plan?: Plan;
}

/** The submitted run, or the new plan and its differences from the previewed one. */
export type Submission = { run: Run } | { plan: Plan; differences: Difference[] };

/** Tokens of submissions without a response. The server recognizes a retry by its token. */
const unanswered = new Map<string, string>();

export function useSubmit() {
  return useChange(submitRun);
}

export async function submitRun({ project, request, plan }: Input): Promise<Submission> {
  const lost = unanswered.get(JSON.stringify([project, request]));
  try {
    return { run: await post(project, request, lost ?? plan?.token) };
  } catch (error) {
    if (!plan || !isOutdated(error)) throw error;
  }
  const latest = await fetchPreview(project, request);
  if (latest.violations.length > 0) throw rejection(latest);
  const differences = comparePlans(plan, latest);
  return differences.length > 0
    ? { plan: latest, differences }
    : { run: await post(project, request, latest.token) };
}

async function post(project: string, request: Request, token?: string | null): Promise<Run> {
  const key = JSON.stringify([project, request]);
  unanswered.delete(key);
  try {
    return await unwrap(
      client.POST("/api/v1/projects/{project}/runs", {
        params: { path: { project } },
        body: { ...request, ...(token && { plan_token: token }) } as Schemas["RunRequest"],
      }),
    );
  } catch (error) {
    if (token && error instanceof Unreachable) unanswered.set(key, token);
    throw error;
  }
}

/** Whether the token has expired, the plan differs, or the server does not accept the token for another reason. */
function isOutdated(error: unknown): boolean {
  return (
    isProblem(error, "preview_outdated") || violationsOf(error).some(({ rule }) => rule === "plan_token")
  );
}

function rejection({ violations }: Plan): ProblemError {
  const detail = "The run is no longer valid.";
  return new ProblemError({ status: 422, code: "rejected", detail, violations } as Problem);
}

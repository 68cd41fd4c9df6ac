/** What can go wrong, as the server tells it (RFC 9457), or because it is not there. */
import type { Schemas } from "./client";

export type Finding = Pick<Schemas["Finding"], "path" | "rule" | "message"> & Partial<Schemas["Finding"]>;
export type Problem = Pick<Schemas["Problem"], "status" | "code" | "detail"> & Partial<Schemas["Problem"]>;

export class ProblemError extends Error {
  constructor(readonly problem: Problem) {
    super(problem.detail);
  }
}

export class Unreachable extends Error {
  constructor() {
    super("The server does not answer.");
  }
}

export async function readProblem(response: Response): Promise<Error> {
  const isProblem = response.headers.get("content-type")?.includes("problem+json");
  if (isProblem) return new ProblemError((await response.json()) as Problem);
  return new ProblemError({
    status: response.status,
    code: "http",
    detail: `The server answered with status ${response.status}.`,
  });
}

/** Whether an error is a problem with this code. */
export function isProblem(error: unknown, code?: string): error is ProblemError {
  return error instanceof ProblemError && (code === undefined || error.problem.code === code);
}

export function violationsOf(error: unknown): Finding[] {
  return isProblem(error) ? (error.problem.violations ?? []) : [];
}

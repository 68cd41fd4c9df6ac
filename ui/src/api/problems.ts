/** API request errors: problem details (RFC 9457), or no response from the server. */
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
    super("The server is not responding.");
  }
}

export async function readProblem(response: Response): Promise<Error> {
  const isProblem = response.headers.get("content-type")?.includes("problem+json");
  if (isProblem) return new ProblemError((await response.json()) as Problem);
  // Any other response is HTML or text from a proxy in front of the server.
  return new ProblemError({
    status: response.status,
    code: "http",
    detail: `The server returned status ${response.status}.`,
  });
}

/** Whether an error is a problem, optionally with a given code. */
export function isProblem(error: unknown, code?: string): error is ProblemError {
  return error instanceof ProblemError && (code === undefined || error.problem.code === code);
}

export function violationsOf(error: unknown): Finding[] {
  return isProblem(error) ? (error.problem.violations ?? []) : [];
}

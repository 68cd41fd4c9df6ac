/** What is read of one run beside its record: what happened to it, why, and what came of it. */
import { useQuery } from "@tanstack/react-query";
import { useChange } from "../../../api/changes";
import { client, type Schemas, unwrap } from "../../../api/client";
import { isProblem } from "../../../api/problems";
import { RUN, type Run } from "../../../api/runs";
import { parseExactly } from "../../../format/numbers";

export type RunEvent = Schemas["EventRecord"];
export type OutputFile = Schemas["OutputFile"];

/** One moment of what a run used: in cores and bytes, of what was measured. */
export interface Sample {
  at: string;
  cpu?: number;
  mem?: number;
  disk?: number;
  gpu?: number;
  gpu_mem?: number;
}
export interface Usage {
  peaks: Omit<Sample, "at"> & { cpu_seconds?: number };
  series: Sample[];
}
/** What a function returned: itself, or the file of the output that has it. */
export type Result =
  | { kind: "json"; value: unknown }
  | { kind: "file"; path: string; type: string; size: number };
export interface Outcome {
  exit_code: number | null;
  result: Result | null;
  error: { type?: string; message?: string; traceback?: string } | null;
  usage: Usage["peaks"];
}

const WHY_EVERY_MS = 5000;
const USAGE_EVERY_MS = 2000;

export function useEvents(id: string) {
  return useQuery({
    queryKey: [RUN, id, "events"],
    queryFn: () => unwrap(client.GET(`${RUN}/events`, { params: of(id) })),
  });
}

/** The tries of a run, the first one first; the present one is the last. */
export function useAttempts(run: Run) {
  return useQuery({
    queryKey: [RUN, run.id, "attempts", run.attempt, run.state],
    queryFn: () => unwrap(client.GET(`${RUN}/attempts`, { params: of(run.id) })),
    placeholderData: (before) => before,
  });
}

/** Where a run is reached that serves something. */
export function useServed(run: Run) {
  return useQuery({
    queryKey: [RUN, run.id, "url", run.state, run.reason],
    queryFn: () => unwrap(client.GET(`${RUN}/url`, { params: of(run.id) })),
    placeholderData: (before) => before,
  });
}

/** Makes an address that lets this browser in at a run, once. */
export function useOpening() {
  return useChange((id: string) => unwrap(client.POST(`${RUN}/open`, { params: of(id) })));
}

/** Why a run waits, with the numbers of this moment. */
export function useWhy(id: string) {
  return useQuery({
    queryKey: [RUN, id, "why"],
    queryFn: () => unwrap(client.GET(`${RUN}/why`, { params: of(id) })),
    // What others hold changes without a change of this run.
    refetchInterval: ({ state }) => (mayRecover(state.error) ? WHY_EVERY_MS : false),
  });
}

/** What came of a run, once it has ended. */
export function useOutcome(run: Run) {
  return useQuery({
    queryKey: [RUN, run.id, "result"],
    queryFn: async () => {
      const asked = client.GET(`${RUN}/result`, { params: of(run.id), parseAs: "text" });
      return parseExactly((await unwrap(asked)) as unknown as string) as Outcome;
    },
    enabled: !run.live,
  });
}

/** What it uses, or what one of its tries used. */
export function useUsage(run: Run, attempt?: number) {
  return useQuery({
    queryKey: [RUN, run.id, "usage", attempt],
    queryFn: () =>
      unwrap(
        client.GET(`${RUN}/usage`, { params: { ...of(run.id), query: { attempt } } }),
      ) as unknown as Promise<Usage>,
    refetchInterval: ({ state }) =>
      run.live && run.started_at && mayRecover(state.error) ? USAGE_EVERY_MS : false,
  });
}

export function useFiles(run: Run) {
  return useQuery({
    queryKey: [RUN, run.id, "files"],
    queryFn: () => unwrap(client.GET(`${RUN}/files`, { params: of(run.id) })),
  });
}

/** Where the server gives something of a run as it is, for links. */
export function downloadAddress(id: string, what: string): string {
  return `/api/v1/runs/${id}/${what.split("/").map(encodeURIComponent).join("/")}`;
}

/** Whether to ask again: not where the server said no, as of a run that was deleted. */
function mayRecover(error: Error | null): boolean {
  return !isProblem(error) || error.problem.status >= 500;
}

function of(id: string) {
  return { path: { run_id: id } };
}

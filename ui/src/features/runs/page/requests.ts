/** Queries for the details of a run: events, attempts, endpoint, waiting reason, outcome, usage and files. */
import { useQuery } from "@tanstack/react-query";
import { useChange } from "../../../api/changes";
import { client, type Schemas, unwrap } from "../../../api/client";
import { isProblem } from "../../../api/problems";
import { RUN, type Run } from "../../../api/runs";
import { parseExactly } from "../../../format/numbers";

export type RunEvent = Schemas["EventRecord"];
export type OutputFile = Schemas["OutputFile"];

/** One usage sample of a run, in cores and bytes. */
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
/** The return value of a function, or the output file that contains it. */
export type Result =
  | { kind: "json"; value: unknown }
  | { kind: "file"; path: string; type: string; size: number };
export interface Outcome {
  exit_code: number | null;
  result: Result | null;
  error: { type?: string; message?: string; traceback?: string } | null;
  usage: Usage["peaks"];
}

const WHY_INTERVAL_MS = 5000;
const USAGE_INTERVAL_MS = 2000;

export function useEvents(id: string) {
  return useQuery({
    queryKey: [RUN, id, "events"],
    queryFn: () => unwrap(client.GET(`${RUN}/events`, { params: of(id) })),
  });
}

/** Attempts of a run, oldest first. */
export function useAttempts(run: Run) {
  return useQuery({
    // Attempts change only when the run's state does, so each state has its own query.
    queryKey: [RUN, run.id, "attempts", run.attempt, run.state],
    queryFn: () => unwrap(client.GET(`${RUN}/attempts`, { params: of(run.id) })),
    placeholderData: (before) => before,
  });
}

/** The endpoint of a served run or a workspace. */
export function useEndpoint(run: Run) {
  return useQuery({
    queryKey: [RUN, run.id, "url", run.state, run.reason],
    queryFn: () => unwrap(client.GET(`${RUN}/url`, { params: of(run.id) })),
    placeholderData: (before) => before,
  });
}

/** Creates a one-time link that opens a run in this browser. */
export function useOpen() {
  return useChange((id: string) => unwrap(client.POST(`${RUN}/open`, { params: of(id) })));
}

/** The reason a run is currently waiting. */
export function useWhy(id: string) {
  return useQuery({
    queryKey: [RUN, id, "why"],
    queryFn: () => unwrap(client.GET(`${RUN}/why`, { params: of(id) })),
    // Polls, because free capacity can change without an event for this run.
    refetchInterval: ({ state }) => (mayRecover(state.error) ? WHY_INTERVAL_MS : false),
  });
}

/** The outcome of an ended run. */
export function useOutcome(run: Run) {
  return useQuery({
    queryKey: [RUN, run.id, "result"],
    queryFn: async () => {
      // Read as text, because JSON.parse would round large integers in the result.
      const response = client.GET(`${RUN}/result`, { params: of(run.id), parseAs: "text" });
      return parseExactly((await unwrap(response)) as unknown as string) as Outcome;
    },
    enabled: !run.active,
  });
}

/** Usage of a run, or of one of its attempts. */
export function useUsage(run: Run, attempt?: number) {
  return useQuery({
    queryKey: [RUN, run.id, "usage", attempt],
    queryFn: () =>
      unwrap(
        client.GET(`${RUN}/usage`, { params: { ...of(run.id), query: { attempt } } }),
      ) as unknown as Promise<Usage>,
    refetchInterval: ({ state }) =>
      run.active && run.started_at && mayRecover(state.error) ? USAGE_INTERVAL_MS : false,
  });
}

export function useFiles(run: Run) {
  return useQuery({
    queryKey: [RUN, run.id, "files"],
    queryFn: () => unwrap(client.GET(`${RUN}/files`, { params: of(run.id) })),
  });
}

/** Returns the download URL for a part of a run. */
export function downloadAddress(id: string, path: string): string {
  return `/api/v1/runs/${id}/${path.split("/").map(encodeURIComponent).join("/")}`;
}

/** Whether to retry after an error. Client errors are final, for example if the run was deleted. */
function mayRecover(error: Error | null): boolean {
  return !isProblem(error) || error.problem.status >= 500;
}

function of(id: string) {
  return { path: { run_id: id } };
}

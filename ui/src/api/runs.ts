/** Queries and mutations for single runs. Lists of runs are in `lists`. */
import { useQuery } from "@tanstack/react-query";
import { useChange } from "./changes";
import { client, ifMatch, type Schemas, unwrap } from "./client";
import type { Plan, Suggestion } from "./plans";

export type Run = Schemas["RunRecord"];
/** A run request. Its type is loose because the server accepts more notations than the OpenAPI schema describes. */
export type Request = Record<string, unknown>;
type Body = Schemas["RunRequest"];

export const RUN = "/api/v1/runs/{run_id}";

export function useRun(id: string | null) {
  return useQuery({
    queryKey: [RUN, id],
    queryFn: () => unwrap(client.GET(RUN, { params: of(id!) })),
    enabled: id !== null,
  });
}

/** The request of an earlier run, ready to be submitted again. */
export function useRequestOf(id: string | null) {
  return useQuery({
    queryKey: [RUN, id, "request"],
    queryFn: () => unwrap(client.GET(`${RUN}/request`, { params: of(id!) })) as Promise<Request>,
    enabled: id !== null,
    // A run's request never changes.
    staleTime: Number.POSITIVE_INFINITY,
  });
}

/** The plan of a run. If the run is waiting, the plan contains its current fit. */
export function usePlanOf(id: string | null) {
  return useQuery({
    queryKey: [RUN, id, "explain"],
    queryFn: () => unwrap(client.GET(`${RUN}/explain`, { params: of(id!) })) as unknown as Promise<Plan>,
    enabled: id !== null,
  });
}

export function fetchPreview(project: string, request: Request): Promise<Plan> {
  return unwrap(
    client.POST("/api/v1/projects/{project}/runs/preview", {
      params: { path: { project } },
      body: request as Body,
    }),
  ) as unknown as Promise<Plan>;
}

/** The plan for a draft request. The server does not store the draft. */
export function usePreview(project: string, request: Request | null) {
  return useQuery({
    // The key does not begin with an API path, so that saving other data does not refetch this query.
    queryKey: ["preview", project, JSON.stringify(request)],
    queryFn: () => fetchPreview(project, request!),
    enabled: request !== null && project !== "",
    placeholderData: (before) => before,
    staleTime: 0,
    // The fit can change even if the draft does not.
    refetchInterval: 10_000,
    retry: false,
  });
}

/** Creates a schedule that submits the request each time it is due. */
export function useSchedule() {
  return useChange(({ project, request }: { project: string; request: Request }) =>
    unwrap(
      client.POST("/api/v1/projects/{project}/schedules", {
        params: { path: { project } },
        body: request as Body,
      }),
    ),
  );
}

export function useStop() {
  return useChange((id: string) => unwrap(client.POST(`${RUN}/stop`, { params: of(id) })));
}

export function useDeleteRun() {
  return useChange((run: Run) =>
    unwrap(client.DELETE(RUN, { params: { ...of(run.id), header: ifMatch(run) } })),
  );
}

/** Applies a suggestion by replacing the waiting run with a changed one. */
export function useApplySuggestion(id: string) {
  return useChange((suggestion: Suggestion) =>
    unwrap(
      client.POST(`${RUN}/change`, {
        params: of(id),
        body: { change: suggestion.change, project: suggestion.project ?? null },
      }),
    ),
  );
}

function of(id: string) {
  return { path: { run_id: id } };
}

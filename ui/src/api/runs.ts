/** Runs: read one by one, submitted, and ended. Lists of them are in `lists`. */
import { useQuery } from "@tanstack/react-query";
import { useChange } from "./changes";
import { client, ifMatch, type Schemas, unwrap } from "./client";
import type { Plan, Suggestion } from "./plans";

export type Run = Schemas["RunRecord"];
/** What is asked for in a run; the server understands more spellings than its description can say. */
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

/** What was asked for in a run, as it can be asked for again. */
export function useRequestOf(id: string | null) {
  return useQuery({
    queryKey: [RUN, id, "request"],
    queryFn: () => unwrap(client.GET(`${RUN}/request`, { params: of(id!) })) as Promise<Request>,
    enabled: id !== null,
    staleTime: Number.POSITIVE_INFINITY,
  });
}

/** What was decided for a run; of one that waits, with its fit as of now. */
export function usePlanOf(id: string | null) {
  return useQuery({
    queryKey: [RUN, id, "explain"],
    queryFn: () => unwrap(client.GET(`${RUN}/explain`, { params: of(id!) })) as unknown as Promise<Plan>,
    enabled: id !== null,
  });
}

/** What would run, while somebody types: nothing is kept. */
export function usePreview(project: string, request: Request | null) {
  return useQuery({
    queryKey: ["preview", project, JSON.stringify(request)],
    queryFn: () =>
      unwrap(
        client.POST("/api/v1/projects/{project}/runs/preview", {
          params: { path: { project } },
          body: request as Body,
        }),
      ) as unknown as Promise<Plan>,
    enabled: request !== null && project !== "",
    placeholderData: (before) => before,
    staleTime: 0,
    // Whether it fits changes while nobody types.
    refetchInterval: 10_000,
    retry: false,
  });
}

export function useSubmit() {
  return useChange(({ project, request }: { project: string; request: Request }) =>
    unwrap(
      client.POST("/api/v1/projects/{project}/runs", {
        params: { path: { project } },
        body: request as Body,
      }),
    ),
  );
}

/** Keeps a request with a schedule, which is submitted at each of its times. */
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

/** Puts a run with other values in the place of one that waits. */
export function useTakeSuggestion(id: string) {
  return useChange((way: Suggestion) =>
    unwrap(
      client.POST(`${RUN}/change`, {
        params: of(id),
        body: { change: way.change, project: way.project ?? null },
      }),
    ),
  );
}

function of(id: string) {
  return { path: { run_id: id } };
}

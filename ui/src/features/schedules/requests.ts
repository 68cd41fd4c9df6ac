/** What is asked of the server about schedules. */
import { useChange } from "../../api/changes";
import { client, ifMatch, type Schemas, unwrap } from "../../api/client";
import { splitScope } from "../../api/scopes";

export const SCHEDULES = "/api/v1/schedules";
const SCHEDULE = "/api/v1/projects/{project}/schedules/{name}";
const SAID = ["id", "cron", "timezone", "missed", "overlap", "paused", "user"] as const;

export type Schedule = Schemas["ScheduleRecord"];
export type Times = Schemas["ScheduleChange"];

function pathOf({ scope, name }: Schedule) {
  return { project: splitScope(scope).name, name };
}

export function usePause() {
  return useChange((read: Schedule) =>
    unwrap(
      client.POST(read.paused ? `${SCHEDULE}/resume` : `${SCHEDULE}/pause`, {
        params: { path: pathOf(read) },
      }),
    ),
  );
}

export function useRunNow() {
  return useChange((read: Schedule) =>
    unwrap(client.POST(`${SCHEDULE}/run`, { params: { path: pathOf(read) } })),
  );
}

export function useChangeTimes() {
  return useChange(async ({ read, times }: { read: Schedule; times: Times }) =>
    unwrap(client.PATCH(SCHEDULE, { params: await changeable(read), body: times })),
  );
}

export function useDeleteSchedule() {
  return useChange(async (read: Schedule) =>
    unwrap(client.DELETE(SCHEDULE, { params: await changeable(read) })),
  );
}

/** Where a schedule is, on condition that people left it as it was read: that it came due is no matter. */
async function changeable(read: Schedule) {
  const path = pathOf(read);
  const now = await unwrap(client.GET(SCHEDULE, { params: { path } }));
  return { path, header: ifMatch(SAID.every((part) => now[part] === read[part]) ? now : read) };
}

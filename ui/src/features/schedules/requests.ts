/** API requests for schedules. */
import { useChange } from "../../api/changes";
import { client, ifMatch, type Schemas, unwrap } from "../../api/client";
import { splitScope } from "../../api/scopes";

export const SCHEDULES = "/api/v1/schedules";
const SCHEDULE = "/api/v1/projects/{project}/schedules/{name}";
/** Fields that users set, as opposed to those that change when the schedule comes due. */
const USER_FIELDS = ["id", "cron", "timezone", "missed", "overlap", "paused", "user"] as const;

export type Schedule = Schemas["ScheduleRecord"];
type ScheduleChange = Schemas["ScheduleChange"];

function pathOf({ scope, name }: Schedule) {
  return { project: splitScope(scope).name, name };
}

export function usePause() {
  return useChange((schedule: Schedule) =>
    unwrap(
      client.POST(schedule.paused ? `${SCHEDULE}/resume` : `${SCHEDULE}/pause`, {
        params: { path: pathOf(schedule) },
      }),
    ),
  );
}

export function useRunNow() {
  return useChange((schedule: Schedule) =>
    unwrap(client.POST(`${SCHEDULE}/run`, { params: { path: pathOf(schedule) } })),
  );
}

export function useEditSchedule() {
  return useChange(async ({ schedule, change }: { schedule: Schedule; change: ScheduleChange }) =>
    unwrap(client.PATCH(SCHEDULE, { params: await conditionalParams(schedule), body: change })),
  );
}

export function useDeleteSchedule() {
  return useChange(async (schedule: Schedule) =>
    unwrap(client.DELETE(SCHEDULE, { params: await conditionalParams(schedule) })),
  );
}

/**
 * Path and If-Match for a change. The change must fail if a user has edited the schedule since it was loaded, but not
 * if the schedule has only come due, which also changes its revision.
 */
async function conditionalParams(schedule: Schedule) {
  const path = pathOf(schedule);
  const current = await unwrap(client.GET(SCHEDULE, { params: { path } }));
  const isUnedited = USER_FIELDS.every((field) => current[field] === schedule[field]);
  return { path, header: ifMatch(isUnedited ? current : schedule) };
}

"""Routes for schedules."""

from typing import Annotated, Any, ClassVar

from fastapi import Depends, Response

from fairlead.model.columns import Page
from fairlead.model.parsing import StrictModel
from fairlead.model.records import RunRecord, ScheduleRecord
from fairlead.model.requests import Missed, Overlap, RunRequest
from fairlead.server.http.parameters import JsonBody, ListParams
from fairlead.server.http.request_context import Context
from fairlead.server.http.routing import make_router, responses
from fairlead.services.transactions.pages import ListQuery

router = make_router("schedules")


class ScheduleChange(StrictModel):
    """The fields of a schedule to change."""

    EXAMPLE: ClassVar[Any] = {"cron": "0 7 * * *"}

    cron: str | None = None
    timezone: str | None = None
    missed: Missed | None = None
    overlap: Overlap | None = None


ScheduleListParams = Annotated[ListQuery, Depends(ListParams(ScheduleRecord))]
RunRequestBody = Annotated[RunRequest, Depends(JsonBody(RunRequest))]
ScheduleChangeBody = Annotated[ScheduleChange, Depends(JsonBody(ScheduleChange))]
SCHEDULE_PATH = "/projects/{project}/schedules/{name}"


@router.get("/schedules", name="list_schedules", **responses(Page[ScheduleRecord]))
async def list_all(context: Context, params: ScheduleListParams) -> Response:
    """List the schedules that you can view."""
    return await context.respond(context.services.schedules.page, params)


@router.get("/projects/{project}/schedules", name="list_project_schedules", **responses(Page[ScheduleRecord]))
async def list_in_project(context: Context, project: str, params: ScheduleListParams) -> Response:
    """List the schedules of a project."""
    return await context.respond(context.services.schedules.page, params, f"project/{project}")


@router.post(
    "/projects/{project}/schedules", name="create_schedule", **responses(ScheduleRecord, status=201, writing=True)
)
async def create(context: Context, project: str, request: RunRequestBody) -> Response:
    """Create a schedule from a request with `schedule`. Its runs are submitted with your permissions."""
    return await context.respond(context.services.schedules.create, f"project/{project}", request, status=201)


@router.get(SCHEDULE_PATH, name="show_schedule", **responses(ScheduleRecord))
async def show(context: Context, project: str, name: str) -> Response:
    """Show a schedule with its request and the time of its next run."""
    return await context.respond(context.services.schedules.get, f"project/{project}", name)


@router.patch(SCHEDULE_PATH, name="change_schedule", **responses(ScheduleRecord, writing=True))
async def change(context: Context, project: str, name: str, body: ScheduleChangeBody) -> Response:
    """Change the timing of a schedule. From then on, its runs are submitted with your permissions."""
    change_fields = body.model_dump(exclude_unset=True)
    return await context.respond(context.services.schedules.change, f"project/{project}", name, change_fields)


@router.delete(SCHEDULE_PATH, name="delete_schedule", **responses(status=204, writing=True))
async def delete(context: Context, project: str, name: str) -> Response:
    """Delete a schedule. Its runs are kept."""
    return await context.respond(context.services.schedules.delete, f"project/{project}", name)


@router.post(f"{SCHEDULE_PATH}/pause", name="pause_schedule", **responses(ScheduleRecord, writing=True))
async def pause(context: Context, project: str, name: str) -> Response:
    """Pause a schedule until it is resumed."""
    return await context.respond(context.services.schedules.pause, f"project/{project}", name)


@router.post(f"{SCHEDULE_PATH}/resume", name="resume_schedule", **responses(ScheduleRecord, writing=True))
async def resume(context: Context, project: str, name: str) -> Response:
    """Resume a paused schedule from its next due time."""
    return await context.respond(context.services.schedules.resume, f"project/{project}", name)


@router.post(f"{SCHEDULE_PATH}/run", name="run_schedule", **responses(RunRecord, status=201, writing=True))
async def run(context: Context, project: str, name: str) -> Response:
    """Submit a run of a schedule now, with your permissions."""
    return await context.respond(context.services.schedules.run, f"project/{project}", name, status=201)

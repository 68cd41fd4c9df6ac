"""Schedules over HTTP."""

from typing import Annotated, Any, ClassVar

from fastapi import Depends, Response

from fairlead.model.parsing import Strict
from fairlead.model.queries import Page
from fairlead.model.records import RunRecord, ScheduleRecord
from fairlead.model.requests import RunRequest
from fairlead.model.schedules import Missed, Overlap
from fairlead.server.list_params import ListParams
from fairlead.server.request_bodies import JsonBody
from fairlead.server.request_context import Context
from fairlead.server.routing import make_router, responses
from fairlead.services.pages import Listing

router = make_router("schedules")


class ScheduleChange(Strict):
    """What is different about a schedule."""

    EXAMPLE: ClassVar[Any] = {"cron": "0 7 * * *"}

    cron: str | None = None
    timezone: str | None = None
    missed: Missed | None = None
    overlap: Overlap | None = None


Listed = Annotated[Listing, Depends(ListParams(ScheduleRecord))]
WrittenRequest = Annotated[RunRequest, Depends(JsonBody(RunRequest))]
WrittenChange = Annotated[ScheduleChange, Depends(JsonBody(ScheduleChange))]
ONE = "/projects/{project}/schedules/{name}"


@router.get("/schedules", name="list_schedules", **responses(Page[ScheduleRecord]))
async def list_all(context: Context, asked: Listed) -> Response:
    """List the schedules that you see."""
    return await context.respond(context.services.schedules.page, asked)


@router.get("/projects/{project}/schedules", name="list_project_schedules", **responses(Page[ScheduleRecord]))
async def list_in_project(context: Context, project: str, asked: Listed) -> Response:
    """List the schedules of a project."""
    return await context.respond(context.services.schedules.page, asked, f"project/{project}")


@router.post(
    "/projects/{project}/schedules", name="create_schedule", **responses(ScheduleRecord, status=201, writing=True)
)
async def create(context: Context, project: str, request: WrittenRequest) -> Response:
    """Keep a request with a `schedule`, which is submitted as you at each of its times."""
    return await context.respond(context.services.schedules.create, f"project/{project}", request, status=201)


@router.get(ONE, name="show_schedule", **responses(ScheduleRecord))
async def show(context: Context, project: str, name: str) -> Response:
    """Show a schedule: its request, and when it is due next."""
    return await context.respond(context.services.schedules.get, f"project/{project}", name)


@router.patch(ONE, name="change_schedule", **responses(ScheduleRecord, writing=True))
async def change(context: Context, project: str, name: str, body: WrittenChange) -> Response:
    """Change when it is due. From then on it is submitted as you."""
    said = body.model_dump(exclude_unset=True)
    return await context.respond(context.services.schedules.change, f"project/{project}", name, said)


@router.delete(ONE, name="delete_schedule", **responses(status=204, writing=True))
async def delete(context: Context, project: str, name: str) -> Response:
    """Delete a schedule. Runs of it stay."""
    return await context.respond(context.services.schedules.delete, f"project/{project}", name)


@router.post(f"{ONE}/pause", name="pause_schedule", **responses(ScheduleRecord, writing=True))
async def pause(context: Context, project: str, name: str) -> Response:
    """Submit nothing until it is resumed."""
    return await context.respond(context.services.schedules.pause, f"project/{project}", name)


@router.post(f"{ONE}/resume", name="resume_schedule", **responses(ScheduleRecord, writing=True))
async def resume(context: Context, project: str, name: str) -> Response:
    """Go on with the next time."""
    return await context.respond(context.services.schedules.resume, f"project/{project}", name)


@router.post(f"{ONE}/run", name="run_schedule", **responses(RunRecord, status=201, writing=True))
async def run(context: Context, project: str, name: str) -> Response:
    """Submit a run of it now, as you."""
    return await context.respond(context.services.schedules.run, f"project/{project}", name, status=201)

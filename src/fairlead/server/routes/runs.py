"""Runs over HTTP."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from fastapi import Depends, Query, Response
from pydantic import Field

from fairlead.model.names import Name
from fairlead.model.parsing import Strict
from fairlead.model.queries import Page
from fairlead.model.records import RunRecord
from fairlead.model.requests import RunRequest
from fairlead.server.list_params import ListParams
from fairlead.server.request_bodies import JsonBody
from fairlead.server.request_context import Context
from fairlead.server.routing import make_router, responses
from fairlead.server.run_events import RunEvents
from fairlead.server.run_events import wait as waiting
from fairlead.services.pages import Listing

NOT_MODIFIED = 304
LONGEST_WAIT = 60
POLL_SECONDS = 2.0  # another server may have changed it, and nobody here heard of it

router = make_router("runs")
Wait = Annotated[int, Query(ge=0, le=LONGEST_WAIT)]
Listed = Annotated[Listing, Depends(ListParams(RunRecord))]


class RunChange(Strict):
    """What is different: merged into what was asked for, where null leaves out. Another project: another cluster."""

    EXAMPLE: ClassVar[Any] = {"change": {"resources": {"mem": {"requests": "4Gi"}}}}

    change: Mapping[str, Any] = Field(default_factory=dict)
    project: Name | None = None


WrittenChange = Annotated[RunChange, Depends(JsonBody(RunChange))]
WrittenRequest = Annotated[RunRequest, Depends(JsonBody(RunRequest))]


@dataclass(frozen=True)
class PlanView:
    """A plan: each value with its source, what to mind, what is refused, and what would be created."""

    settings: list[dict[str, Any]]
    warnings: list[dict[str, Any]]
    violations: list[dict[str, Any]]
    manifests: list[dict[str, Any]]
    fit: dict[str, Any]
    token: str | None = None


@router.post("/projects/{project}/runs/preview", name="preview_run", **responses(PlanView, writing=True))
async def preview(context: Context, project: str, request: WrittenRequest) -> Response:
    """Say what would run, with which values and why. `token` submits exactly this as `plan_token`."""
    return await context.respond(context.services.runs.preview, f"project/{project}", request, quick=True)


@router.post("/projects/{project}/runs", name="submit_run", **responses(RunRecord, status=201, writing=True))
async def submit(context: Context, project: str, request: WrittenRequest) -> Response:
    """Submit a run. Answers when it is kept, before it starts."""
    return await context.respond(context.services.runs.submit, f"project/{project}", request, status=201)


@router.get("/projects/{project}/runs", name="list_project_runs", **responses(Page[RunRecord]))
async def list_in_project(context: Context, project: str, asked: Listed) -> Response:
    """List the runs of a project, the newest first."""
    return await context.respond(context.services.runs.page, asked, f"project/{project}")


@router.get("/runs", name="list_runs", **responses(Page[RunRecord]))
async def list_all(context: Context, asked: Listed) -> Response:
    """List the runs that you see, the newest first."""
    return await context.respond(context.services.runs.page, asked)


@router.get("/runs/{run_id}", name="show_run", **responses(RunRecord))
async def show(context: Context, run_id: str, wait: Wait = 0) -> Response:
    """Show a run. With If-None-Match and `wait`, answers as soon as it changes."""
    run_events: RunEvents = context.request.app.state.run_events
    with run_events.subscribe(run_id) as heard:
        until = time.monotonic() + wait
        while True:
            respond = await context.respond(context.services.runs.get, run_id, quick=True)
            left = until - time.monotonic()
            if respond.status_code != NOT_MODIFIED or left <= 0:
                return respond
            await waiting(heard, min(left, POLL_SECONDS))


@router.post("/runs/{run_id}/stop", name="stop_run", **responses(RunRecord, writing=True))
async def stop(context: Context, run_id: str) -> Response:
    """End a run."""
    return await context.respond(context.services.runs.stop, run_id)


@router.post("/runs/{run_id}/change", name="change_run", **responses(RunRecord, status=201, writing=True))
async def change(context: Context, run_id: str, body: WrittenChange) -> Response:
    """Put a run with other values in the place of one that waits, as a suggestion says it."""
    return await context.respond(context.services.runs.change, run_id, dict(body.change), body.project, status=201)


@router.delete("/runs/{run_id}", name="delete_run", **responses(status=204, writing=True, description="Deleted"))
async def delete(context: Context, run_id: str) -> Response:
    """Forget a run that has ended."""
    return await context.respond(context.services.runs.delete, run_id)


@router.get("/runs/{run_id}/explain", name="explain_run", **responses(PlanView))
async def explain(context: Context, run_id: str) -> Response:
    """Show what was decided for a run: each value, who set it and whom it overrode. While it waits, with its fit."""
    return await context.respond(context.services.explanations.explain, run_id)


@router.get("/runs/{run_id}/request", name="show_run_request", **responses(dict[str, Any]))
async def request_of(context: Context, run_id: str) -> Response:
    """Show what was asked for in a run, as it can be asked for again."""
    return await context.respond(lambda call: context.services.runs.plan(call, run_id).request)


@router.get("/runs/{run_id}/manifests", name="list_run_manifests", **responses(list[dict[str, Any]]))
async def manifests(context: Context, run_id: str) -> Response:
    """Show the Kubernetes objects of a run; of one that was tried again, those of its present attempt."""
    return await context.respond(context.services.runs.manifests, run_id)

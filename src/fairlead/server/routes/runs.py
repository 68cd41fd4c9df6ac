"""Routes for runs, fit checks and capacity."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from fastapi import Depends, Query, Response
from pydantic import Field

from fairlead.model.columns import Page
from fairlead.model.names import Name
from fairlead.model.parsing import Flag, StrictModel
from fairlead.model.plans import FitReport
from fairlead.model.records import RunRecord
from fairlead.model.requests import RunRequest
from fairlead.server.http.parameters import JsonBody, ListParams
from fairlead.server.http.request_context import Context
from fairlead.server.http.routing import make_router, responses
from fairlead.server.http.streaming import subscribe, wait_for_change
from fairlead.services.runs.capacity import Capacity
from fairlead.services.transactions.pages import ListQuery

NOT_MODIFIED = 304
MAX_WAIT_SECONDS = 60  # many proxies close requests without a response after a minute
POLL_SECONDS = 2.0  # changes made by other servers are found by polling

router = make_router("runs")
Wait = Annotated[int, Query(ge=0, le=MAX_WAIT_SECONDS)]
RunListParams = Annotated[ListQuery, Depends(ListParams(RunRecord))]

MAX_NODES = 100
MAX_NAME_LENGTH = 300

NodeName = Annotated[str, Field(max_length=MAX_NAME_LENGTH)]


class RunChange(StrictModel):
    """Changes to the request of a run, merged like JSON Merge Patch: null removes a field. `project` moves the run."""

    EXAMPLE: ClassVar[Any] = {"change": {"resources": {"mem": {"requests": "4Gi"}}}}

    change: Mapping[str, Any] = Field(default_factory=dict)
    project: Name | None = None


RunChangeBody = Annotated[RunChange, Depends(JsonBody(RunChange))]
RunRequestBody = Annotated[RunRequest, Depends(JsonBody(RunRequest))]


@dataclass(frozen=True)
class PlanView:
    """A plan: the settings with their sources, warnings, violations, fit, and the Kubernetes objects of the run."""

    settings: list[dict[str, Any]]
    warnings: list[dict[str, Any]]
    violations: list[dict[str, Any]]
    manifests: list[dict[str, Any]]
    fit: dict[str, Any]
    token: str | None = None  # only for a preview without violations


@router.post("/projects/{project}/runs/preview", name="preview_run", **responses(PlanView, writing=True))
async def preview(context: Context, project: str, request: RunRequestBody) -> Response:
    """Preview a run: its settings with their sources, and whether it fits.

    To submit exactly this plan, send `token` as `plan_token`.
    """
    # Not `quick`: with suggestions, a preview can take as long as a hundred plans.
    return await context.respond(context.services.runs.preview, f"project/{project}", request)


@router.post("/projects/{project}/runs", name="submit_run", **responses(RunRecord, status=201, writing=True))
async def submit(context: Context, project: str, request: RunRequestBody) -> Response:
    """Submit a run. The response is sent when the run is stored, before it starts."""
    return await context.respond(context.services.runs.submit, f"project/{project}", request, status=201)


@router.get("/projects/{project}/runs", name="list_project_runs", **responses(Page[RunRecord]))
async def list_in_project(context: Context, project: str, params: RunListParams) -> Response:
    """List the runs of a project, newest first."""
    return await context.respond(context.services.runs.page, params, f"project/{project}")


@router.get("/runs", name="list_runs", **responses(Page[RunRecord]))
async def list_all(context: Context, params: RunListParams) -> Response:
    """List the runs that you can view, newest first."""
    return await context.respond(context.services.runs.page, params)


@router.get("/runs/{run_id}", name="show_run", **responses(RunRecord))
async def show(context: Context, run_id: str, wait: Wait = 0) -> Response:
    """Show a run. With If-None-Match and `wait`, the response is sent as soon as the run changes."""
    with subscribe(context.services.run_events, run_id) as subscription:
        until = time.monotonic() + wait
        while True:
            response = await context.respond(context.services.runs.get, run_id, quick=True)
            left = until - time.monotonic()
            if response.status_code != NOT_MODIFIED or left <= 0:
                return response
            await wait_for_change(subscription, min(left, POLL_SECONDS))


@router.post("/runs/{run_id}/stop", name="stop_run", **responses(RunRecord, writing=True))
async def stop(context: Context, run_id: str) -> Response:
    """Stop a run."""
    return await context.respond(context.services.runs.stop, run_id)


@router.post("/runs/{run_id}/change", name="change_run", **responses(RunRecord, status=201, writing=True))
async def change(context: Context, run_id: str, body: RunChangeBody) -> Response:
    """Replace a queued run with one that has changed values, for example those from a suggestion."""
    return await context.respond(context.services.runs.change, run_id, dict(body.change), body.project, status=201)


@router.delete("/runs/{run_id}", name="delete_run", **responses(status=204, writing=True, description="Deleted"))
async def delete(context: Context, run_id: str) -> Response:
    """Delete a run that has ended, with its logs, files and result."""
    return await context.respond(context.services.runs.delete, run_id)


@router.get("/runs/{run_id}/explain", name="explain_run", **responses(PlanView))
async def explain(context: Context, run_id: str) -> Response:
    """Show the plan of a run: each setting, its source and what it overrode. For a queued run, includes the fit."""
    return await context.respond(context.services.explanations.explain, run_id)


@router.get("/runs/{run_id}/request", name="show_run_request", **responses(dict[str, Any]))
async def request_of(context: Context, run_id: str) -> Response:
    """Show the request of a run, in a form that can be submitted again."""
    return await context.respond(lambda call: context.services.runs.plan(call, run_id).request)


@router.get("/runs/{run_id}/manifests", name="list_run_manifests", **responses(list[dict[str, Any]]))
async def manifests(context: Context, run_id: str) -> Response:
    """List the Kubernetes objects of the current attempt of a run."""
    return await context.respond(context.services.runs.manifests, run_id)


class FitRequest(StrictModel):
    """A request in a project, with nodes to add or leave out: `2xNAME` adds two nodes like NAME."""

    EXAMPLE: ClassVar[Any] = {"project": "forest", "request": {"function": "train"}, "add_nodes": ["2xa100-node"]}

    project: Name
    request: RunRequest
    add_nodes: Annotated[tuple[NodeName, ...], Field(max_length=MAX_NODES)] = ()
    without: Annotated[tuple[NodeName, ...], Field(max_length=MAX_NODES)] = ()
    all_nodes: Flag = False  # list every node, not only the best candidates


FitBody = Annotated[FitRequest, Depends(JsonBody(FitRequest))]


@router.post("/fit", name="check_fit", **responses(FitReport, writing=True))
async def check_fit(context: Context, body: FitBody) -> Response:
    """Check whether a request would start now, later or never, and why. Nodes can be added or left out."""
    return await context.respond(
        context.services.fit_checks.check,
        body.project,
        body.request,
        body.add_nodes,
        body.without,
        all_nodes=body.all_nodes,
    )


@router.get("/capacity", name="show_capacity", **responses(list[Capacity]))
async def show_capacity(context: Context, project: str | None = None, cluster: str | None = None) -> Response:
    """Show the total and free capacity of each cluster that you can view, and how many runs fit per compute resource.

    With `project`, shows only its cluster and the compute resources that are available to it.
    """
    return await context.respond(context.services.capacity.show, project, cluster)

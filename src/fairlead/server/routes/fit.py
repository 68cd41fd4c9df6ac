"""Route for fit checks and what-if questions about nodes."""

from typing import Annotated, Any, ClassVar

from fastapi import Depends, Response
from pydantic import Field

from fairlead.model.names import Name
from fairlead.model.parsing import Flag, StrictModel
from fairlead.model.requests import RunRequest
from fairlead.planning.fit_reports import FitReport
from fairlead.server.request_bodies import JsonBody
from fairlead.server.request_context import Context
from fairlead.server.routing import make_router, responses

MAX_NODES = 100
MAX_NAME_LENGTH = 300

router = make_router("runs")
NodeName = Annotated[str, Field(max_length=MAX_NAME_LENGTH)]


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
async def fit(context: Context, body: FitBody) -> Response:
    """Check whether a request would start now, later or never, and why. Nodes can be added or left out."""
    return await context.respond(
        context.services.fit_checks.check,
        body.project,
        body.request,
        body.add_nodes,
        body.without,
        all_nodes=body.all_nodes,
    )

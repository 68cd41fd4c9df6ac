"""Fit over HTTP: would it run, and what if there were other nodes."""

from typing import Annotated, Any, ClassVar

from fastapi import Depends, Response
from pydantic import Field

from fairlead.core.fitting.fit_report import FitReport
from fairlead.model.names import Name
from fairlead.model.parsing import Flag, Strict
from fairlead.model.requests import RunRequest
from fairlead.server.request_bodies import JsonBody
from fairlead.server.request_context import Context
from fairlead.server.routing import make_router, responses

MOST_SAID = 100
LONGEST_NAME = 300

router = make_router("runs")
NodeName = Annotated[str, Field(max_length=LONGEST_NAME)]


class FitRequest(Strict):
    """A request in a project, and which nodes there are more or fewer: `2xNAME` is two like the node NAME."""

    EXAMPLE: ClassVar[Any] = {"project": "forest", "request": {"function": "train"}, "add_nodes": ["2xa100-node"]}

    project: Name
    request: RunRequest
    add_nodes: Annotated[tuple[NodeName, ...], Field(max_length=MOST_SAID)] = ()
    without: Annotated[tuple[NodeName, ...], Field(max_length=MOST_SAID)] = ()
    all_nodes: Flag = False


WrittenFit = Annotated[FitRequest, Depends(JsonBody(FitRequest))]


@router.post("/fit", name="check_fit", **responses(FitReport, writing=True))
async def fit(context: Context, said: WrittenFit) -> Response:
    """Say whether a request would run now, later or never, and why not; also on other nodes than there are."""
    return await context.respond(
        context.services.fit_checks.judge,
        said.project,
        said.request,
        said.add_nodes,
        said.without,
        all_nodes=said.all_nodes,
    )

"""What is free, over HTTP."""

from fastapi import Response

from fairlead.server.request_context import Context
from fairlead.server.routing import make_router, responses
from fairlead.services.capacity import Capacity

router = make_router("runs")


@router.get("/capacity", name="show_capacity", **responses(list[Capacity]))
async def show(context: Context, project: str | None = None, cluster: str | None = None) -> Response:
    """Show what each cluster that you see has and what is free, and how many more of each compute resource fit now.

    With a project, that of its cluster, for the compute resources that it can choose.
    """
    return await context.respond(context.services.capacity.show, project, cluster)

"""Route for the capacity of clusters."""

from fastapi import Response

from fairlead.server.request_context import Context
from fairlead.server.routing import make_router, responses
from fairlead.services.runs.capacity import Capacity

router = make_router("runs")


@router.get("/capacity", name="show_capacity", **responses(list[Capacity]))
async def show(context: Context, project: str | None = None, cluster: str | None = None) -> Response:
    """Show the total and free capacity of each cluster that you can view, and how many runs fit per compute resource.

    With `project`, shows only its cluster and the compute resources that are available to it.
    """
    return await context.respond(context.services.capacity.show, project, cluster)

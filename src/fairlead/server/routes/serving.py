"""Routes for the URLs of runs that serve HTTP."""

from fastapi import Response

from fairlead.server.request_context import Context
from fairlead.server.routing import make_router, responses
from fairlead.services.runs.serving import OpenedUrl, ServedUrl

router = make_router("runs")


@router.get("/runs/{run_id}/url", name="show_run_url", **responses(ServedUrl, conflicts=True))
async def url(context: Context, run_id: str) -> Response:
    """Show the URL at which programs can call a run, whether browsers can open it, and whether the run is ready."""
    return await context.respond(context.services.serving.describe_url, run_id, context.request.app.state.hosts)


@router.post("/runs/{run_id}/open", name="open_run", **responses(OpenedUrl, writing=True))
async def open_(context: Context, run_id: str) -> Response:
    """Create a URL that signs a browser in to a run as you, once and within a minute."""
    return await context.respond(context.services.serving.open, run_id, context.request.app.state.hosts)

"""Routes for liveness, readiness and metrics, without authentication."""

from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter, Request, Response
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

import fairlead
from fairlead.server.http.request_context import PublicContext
from fairlead.server.http.routing import make_router

_UNREADY: dict[int | str, dict[str, Any]] = {
    503: {
        "description": "Not ready",
        "content": {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}},
    }
}
_TEXT: dict[int | str, dict[str, Any]] = {
    200: {"description": "Prometheus text format", "content": {"text/plain": {"schema": {"type": "string"}}}}
}


@dataclass(frozen=True)
class Health:
    """The status of the server."""

    status: str
    version: str


def make_routes(prefix: str, *, described: bool = True) -> APIRouter:
    """Create the health routes under a prefix: they exist at the root and under the API path."""
    router = make_router("health", prefix)

    @router.get("/healthz", name="show_health", include_in_schema=described)
    async def healthz() -> Health:
        """Liveness check."""
        # The database is not checked: Kubernetes would restart the server, which would not repair a database.
        return Health("alive", fairlead.__version__)

    @router.get("/readyz", name="show_readiness", include_in_schema=described, responses=_UNREADY)
    async def readyz(context: PublicContext) -> Health:
        """Readiness check: the database is reachable."""
        await context.run_in_thread(lambda _call: context.request.app.state.check_ready())
        return Health("ready", fairlead.__version__)

    @router.get("/metrics", name="show_metrics", include_in_schema=described, response_class=Response, responses=_TEXT)
    async def metrics(request: Request) -> Response:
        """Metrics for Prometheus."""
        return Response(generate_latest(request.app.state.metrics.registry), media_type=CONTENT_TYPE_LATEST)

    return router

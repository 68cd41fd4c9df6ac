"""Creates the FastAPI application: routes, middleware, error handlers and the OpenAPI document."""

import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

from anyio import CapacityLimiter
from fastapi import APIRouter, FastAPI
from fastapi.routing import APIRoute

import fairlead
from fairlead.ports import MakeId
from fairlead.server import openapi, problem_details, web_ui
from fairlead.server.middleware import Metrics, Middleware
from fairlead.server.proxy.http import ProxyConfig
from fairlead.server.proxy.middleware import Proxy
from fairlead.server.request_context import CLUSTER_THREADS, OIDC_THREADS, THREADS, Services
from fairlead.server.routes import (
    access,
    capacity,
    compute_resources,
    connections,
    events,
    executions,
    files,
    fit,
    health,
    policies,
    project_objects,
    run_uploads,
    runs,
    schedules,
    scopes,
    serving,
    sessions,
    templates,
)
from fairlead.server.routing import API
from fairlead.server.run_events import RunEvents
from fairlead.services.runs.serving import ServedHosts

ROUTERS: tuple[APIRouter, ...] = (
    runs.router,  # first, because it gets the most requests
    fit.router,
    executions.router,
    serving.router,
    events.router,
    capacity.router,
    run_uploads.router,
    compute_resources.router,
    scopes.router,
    connections.router,
    templates.router,
    policies.router,
    project_objects.router,
    schedules.router,
    access.router,
    files.router,
    sessions.router,
    health.make_routes(API),
    health.make_routes("", described=False),  # where probes and Prometheus expect them
)
Background = Callable[[], AbstractAsyncContextManager[None]]


@asynccontextmanager
async def _nothing() -> AsyncIterator[None]:
    yield


def create_application(
    services: Services,
    *,
    check_ready: Callable[[], None],
    make_id: MakeId,
    url: str = "http://127.0.0.1",
    reads_are_local: bool = False,
    background: Background = _nothing,
    run_events: RunEvents | None = None,
    page: Path | None = None,
    stream_seconds: float = 300.0,
    served_host: str | None = None,
    proxy_config: ProxyConfig | None = None,
) -> FastAPI:
    """Create the application that serves `services` over HTTP.

    `background` runs as long as the application does. `reads_are_local`: the database is on this machine, so quick
    reads run on the event loop. `page` is the web UI folder. Event streams end after `stream_seconds`. Each run that
    serves HTTP gets its own host under `served_host`.
    """

    metrics, proxy_config = Metrics(), proxy_config or ProxyConfig()

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        async with background():
            metrics.last_at = time.monotonic()  # the server accepts no requests before this
            yield
            proxy_config.connections.close()

    app = FastAPI(
        title="Fairlead",
        version=fairlead.__version__,
        openapi_url=f"{API}/openapi.json",
        # FastAPI's pages load scripts from other hosts, which the Content-Security-Policy forbids.
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        lifespan=lifespan,
    )
    # One flat list of routes is faster to match than nested routers.
    app.router.routes += [route for router in ROUTERS for route in router.routes]
    app.state.services, app.state.check_ready, app.state.url = services, check_ready, url
    app.state.reads_are_local, app.state.stream_seconds = reads_are_local, stream_seconds
    app.state.run_events, app.state.is_shutting_down = run_events or RunEvents(), lambda: False
    app.state.metrics, app.state.limiter = metrics, CapacityLimiter(THREADS)
    app.state.oidc_limiter = CapacityLimiter(OIDC_THREADS)
    app.state.cluster_limiter = CapacityLimiter(CLUSTER_THREADS)
    app.state.hosts = hosts = ServedHosts.of(url, served_host)
    web_ui.install(app, page)
    app.state.routes = [route for route in app.routes if isinstance(route, APIRoute)]
    app.openapi = lambda: openapi.build_openapi(app, app.state.routes)  # type: ignore[method-assign]
    problem_details.install(app)
    app.add_middleware(Middleware, metrics=metrics, make_id=make_id)
    # Looked up at each call, because app.py replaces the function when the server starts.
    proxy_config.is_shutting_down = lambda: bool(app.state.is_shutting_down())
    # Added last, so it handles requests first: the API's size limits and headers do not apply to requests for runs.
    app.add_middleware(
        Proxy, services=services, hosts=hosts, proxy_config=proxy_config, metrics=metrics, make_id=make_id
    )
    return app

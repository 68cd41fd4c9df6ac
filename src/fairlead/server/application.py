"""Creates the FastAPI application: routes, middleware, error handlers and the OpenAPI document."""

import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
from anyio import CapacityLimiter
from fastapi import APIRouter, FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

import fairlead
from fairlead.ports import MakeId
from fairlead.server.http import problem_details, web_ui
from fairlead.server.http.middleware import Metrics, Middleware
from fairlead.server.http.parameters import BytesBody, JsonBody, ListParams
from fairlead.server.http.request_context import CLUSTER_THREADS, OIDC_THREADS, THREADS
from fairlead.server.http.routing import (
    API,
    BYTES,
    COMPONENTS,
    REFERENCE,
    StrictRoute,
    add_json_fields,
    dependants_of,
    schema_reference,
)
from fairlead.server.proxy.http import ProxyConfig
from fairlead.server.proxy.middleware import Proxy
from fairlead.server.routes import (
    access,
    assets,
    connections,
    executions,
    files,
    health,
    policies,
    project_objects,
    runs,
    schedules,
    scopes,
    sessions,
)
from fairlead.services.access.rate_limits import RECORDED_SECONDS, FailedSignIns
from fairlead.services.registry import Services
from fairlead.services.runs.serving import ServedHosts

# Route names or prefixes. These routes use POST but change an existing object, so they accept If-Match.
CONDITIONAL = ("archive_", "restore_", "stop_")
REPEATABLE = ("check_", "validate_", "preview_", "stop_", "sign_in", "open_")  # repeatable without an idempotency key
PUBLIC = ("list_sign_in_methods",)  # called before the client has a token
UNCONDITIONAL = ("put_code", "upload_run_file")  # content that never changes, or has a single writer
PARAMETERS = {
    "name": "Name of the object; compute resources and templates also accept the ID",
    "project": "Name of the project",
    "cluster": "Name of a cluster; by default all clusters that you can view",
    "kind": "Kind of scope",
    "run_id": "ID of the run",
    "wait": "Seconds to wait for a revision other than the one in If-None-Match",
    "cursor": (
        "Cursor from the previous page, or 0 for the beginning of the first attempt; "
        "by default the beginning of the selected attempt"
    ),
    "attempt": "Attempt number, starting at 1; by default the last attempt that was started",
    "follow": "Stream new entries until the run ends",
    "format": "Return entries as JSON, or the raw bytes",
    "stream": "Return only this stream; by default both",
    "path": "Path of the file, as in the list of files; for uploads of output files, it starts with output/",
    "digest": "`sha256:` followed by the digest of the archive",
    "role_id": "ID of the role",
    "token_id": "ID of the token",
    "force": "Also change an object that is managed by files; applying the files again reverts the change",
    "old": "Number of the older revision",
    "new": "Number of the newer revision",
}
HEADERS = {
    "if_match": {
        "name": "If-Match",
        "in": "header",
        "required": False,
        "description": "The ETag that you read; the request fails with 412 if the object has changed since then",
        "schema": {"type": "string", "pattern": r'^(\*|"[0-9]{1,9}(-[0-9a-z]{1,12})?")$'},
    },
    "idempotency_key": {
        "name": "Idempotency-Key",
        "in": "header",
        "required": False,
        "description": "A unique value; requests with the same value are executed only once and get the same response",
        "schema": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]+$"},
    },
}

ROUTERS: tuple[APIRouter, ...] = (
    runs.router,  # first, because it gets the most requests
    executions.router,
    assets.compute_resources_router,
    scopes.router,
    connections.router,
    assets.templates_router,
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


def build_openapi(app: FastAPI, routes: list[APIRoute]) -> dict[str, Any]:
    """Build the application's OpenAPI document, only once."""
    if app.openapi_schema is None:
        for route in routes:
            if isinstance(route, StrictRoute):
                route.describe_responses()
        document = get_openapi(
            title="Fairlead",
            version=fairlead.__version__,
            summary="Gives every AI run the compute it requested, and shows where each value came from.",
            routes=app.routes,
        )
        schemas = document.setdefault("components", {}).setdefault("schemas", {})
        # FastAPI describes its own validation errors, which problem_details.py replaces.
        schemas.pop("HTTPValidationError", None)
        schemas.pop("ValidationError", None)
        add_json_fields(schemas)
        schemas |= {**COMPONENTS, **_body_schemas(routes)}
        document["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        document["security"] = [{"token": []}]
        for route in routes:
            for method in route.methods or ():
                if route.include_in_schema:
                    _complete_operation(document["paths"][route.path_format][method.lower()], route, method)
        app.openapi_schema = document
    return app.openapi_schema


def _complete_operation(operation: dict[str, Any], route: APIRoute, method: str) -> None:
    parameters = operation.setdefault("parameters", [])
    for parameter in parameters:
        parameter.setdefault("description", PARAMETERS[parameter["name"]])
    for dependency in _dependencies(route):
        if isinstance(dependency, ListParams):
            parameters += dependency.parameters
        else:
            operation["requestBody"] = _describe_body(dependency)
    is_change = method in ("PATCH", "PUT", "DELETE") or route.name.startswith(CONDITIONAL)
    if is_change and route.name not in UNCONDITIONAL:
        parameters.append(HEADERS["if_match"])
    if method == "POST" and not route.name.startswith(REPEATABLE):
        parameters.append(HEADERS["idempotency_key"])
    if not parameters:
        del operation["parameters"]
    if "health" in (route.tags or ()) or route.name in PUBLIC:
        operation["security"] = []


def _describe_body(body: JsonBody | BytesBody) -> dict[str, Any]:
    if isinstance(body, BytesBody):
        return {"required": True, "content": {media_type: {"schema": BYTES} for media_type in body.media_types}}
    return {
        "required": body.required,
        "content": {"application/json": {"schema": schema_reference(_schema_name(body))}},
    }


def _body_schemas(routes: list[APIRoute]) -> dict[str, Any]:
    """Schemas of request bodies. A partial body has the same fields as its model, but all are optional."""
    bodies = [body for route in routes for body in _dependencies(route) if isinstance(body, JsonBody)]
    models: list[type[BaseModel]] = list(dict.fromkeys(body.model for body in bodies))
    _, generated = models_json_schema([(model, "validation") for model in models], ref_template=REFERENCE)
    schemas: dict[str, Any] = generated.get("$defs", {})
    for body in bodies:
        if body.partial:
            complete_schema = schemas[body.model.__name__]
            partial_schema = {key: value for key, value in complete_schema.items() if key != "required"}
            schemas[_schema_name(body)] = {**partial_schema, "title": _schema_name(body)}
    # Models that are only used for partial bodies do not need a complete schema.
    names = {_schema_name(body) for body in bodies}
    for body in bodies:
        if body.model.__name__ not in names:
            schemas.pop(body.model.__name__, None)
    return schemas


def _schema_name(body: JsonBody) -> str:
    return f"{body.model.__name__}{'Change' if body.partial else ''}"


def _dependencies(route: APIRoute) -> Iterator[JsonBody | BytesBody | ListParams]:
    for dependant in dependants_of(route.dependant):
        if isinstance(dependant.call, JsonBody | BytesBody | ListParams):
            yield dependant.call


@asynccontextmanager
async def _nothing() -> AsyncIterator[None]:
    yield


async def _record_failed_sign_ins(failures: FailedSignIns) -> None:
    try:
        while True:
            await anyio.sleep(RECORDED_SECONDS)
            await anyio.to_thread.run_sync(failures.flush)
    finally:
        failures.flush()


def create_application(
    services: Services,
    *,
    check_ready: Callable[[], None],
    make_id: MakeId,
    url: str = "http://127.0.0.1",
    reads_are_local: bool = False,
    background: Background = _nothing,
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
        async with background(), anyio.create_task_group() as tasks:
            tasks.start_soon(_record_failed_sign_ins, services.tokens.failures)
            metrics.last_at = time.monotonic()  # the server accepts no requests before this
            yield
            tasks.cancel_scope.cancel()
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
    app.state.is_shutting_down, app.state.metrics = lambda: False, metrics
    app.state.limiter = CapacityLimiter(THREADS)
    app.state.oidc_limiter = CapacityLimiter(OIDC_THREADS)
    app.state.cluster_limiter = CapacityLimiter(CLUSTER_THREADS)
    app.state.hosts = hosts = ServedHosts.of(url, served_host)
    web_ui.install(app, page)
    app.state.routes = [route for route in app.routes if isinstance(route, APIRoute)]
    app.openapi = lambda: build_openapi(app, app.state.routes)  # type: ignore[method-assign]
    problem_details.install(app)
    app.add_middleware(Middleware, metrics=metrics, make_id=make_id)
    # Looked up at each call, because app.py replaces the function when the server starts.
    proxy_config.is_shutting_down = lambda: bool(app.state.is_shutting_down())
    # Added last, so it handles requests first: the API's size limits and headers do not apply to requests for runs.
    app.add_middleware(
        Proxy, services=services, hosts=hosts, proxy_config=proxy_config, metrics=metrics, make_id=make_id
    )
    return app

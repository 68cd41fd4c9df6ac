"""The OpenAPI document: FastAPI's own, with request bodies, list parameters and descriptions added."""

from collections.abc import Iterator
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

import fairlead
from fairlead.server.list_params import ListParams
from fairlead.server.request_bodies import BytesBody, JsonBody
from fairlead.server.routing import BYTES, dependants_of
from fairlead.server.schemas import COMPONENTS, REFERENCE, add_json_fields, refer

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


def build_openapi(app: FastAPI, routes: list[APIRoute]) -> dict[str, Any]:
    """Build the application's OpenAPI document, only once."""
    if app.openapi_schema is None:
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
    return {"required": body.required, "content": {"application/json": {"schema": refer(_schema_name(body))}}}


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

"""The OpenAPI document: what FastAPI knows of the routes, and what only our own readers of requests know."""

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
from fairlead.server.routing import BYTES, calls_of
from fairlead.server.schemas import COMPONENTS, REFERENCE, complete, refer

CONDITIONAL = ("archive_", "restore_", "stop_")
REPEATABLE = ("check_", "validate_", "preview_", "stop_", "sign_in", "open_")  # done twice, they do no more than once
PUBLIC = ("list_sign_in_methods",)  # who asks it has no token yet
UNCONDITIONAL = ("put_code", "upload_run_file")  # what never changes, or has one author: nobody can be too late
PARAMETERS = {
    "name": "its name; of compute resources and templates also the id",
    "project": "the name of the project",
    "cluster": "the name of a cluster; left out, all that you see",
    "kind": "what kind of scope it is",
    "run_id": "the id of the run",
    "wait": "how many seconds to wait for the run to be another than the ETag in If-None-Match says",
    "cursor": "where to go on: the cursor of what was read before, or 0 for the beginning; left out, where the attempt "
    "begins",
    "attempt": "which try of the run, from 1 on; left out, the last that was given a place",
    "follow": "whether to stream what comes, until the run ends",
    "format": "entries as JSON, or the bytes themselves",
    "stream": "of which stream; left out, of both",
    "path": "the path of the file, as the list of files has it; what a run hands over as output has output/ before it",
    "digest": "sha256: and the digest of the archive",
    "role_id": "the id of the role",
    "token_id": "the id of the token",
    "force": "whether to change what is managed by files, until they are applied again",
    "old": "the number of the older revision",
    "new": "the number of the newer revision",
}
HEADERS = {
    "if_match": {
        "name": "If-Match",
        "in": "header",
        "required": False,
        "description": "the ETag that you read: the change is refused where somebody else was faster",
        "schema": {"type": "string", "pattern": r'^(\*|"[0-9]{1,9}(-[0-9a-z]{1,12})?")$'},
    },
    "idempotency_key": {
        "name": "Idempotency-Key",
        "in": "header",
        "required": False,
        "description": "a word of yours: the same request with the same word is done once, and answered the same",
        "schema": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]+$"},
    },
}


def describe(app: FastAPI, routes: list[APIRoute]) -> dict[str, Any]:
    """The document, worked out once."""
    if app.openapi_schema is None:
        document = get_openapi(
            title="Fairlead",
            version=fairlead.__version__,
            summary="Gives every AI run the compute it asked for, and says where each value came from.",
            routes=app.routes,
        )
        schemas = document.setdefault("components", {}).setdefault("schemas", {})
        schemas.pop("HTTPValidationError", None)
        schemas.pop("ValidationError", None)
        complete(schemas)
        schemas |= {**COMPONENTS, **_models(routes)}
        document["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        document["security"] = [{"token": []}]
        for route in routes:
            for method in route.methods or ():
                if route.include_in_schema:
                    _complete(document["paths"][route.path_format][method.lower()], route, method)
        app.openapi_schema = document
    return app.openapi_schema


def _complete(operation: dict[str, Any], route: APIRoute, method: str) -> None:
    parameters = operation.setdefault("parameters", [])
    for parameter in parameters:
        parameter.setdefault("description", PARAMETERS[parameter["name"]])
    for reader in _readers(route):
        if isinstance(reader, ListParams):
            parameters += reader.parameters
        else:
            operation["requestBody"] = _body(reader)
    changes = method in ("PATCH", "PUT", "DELETE") or route.name.startswith(CONDITIONAL)
    if changes and route.name not in UNCONDITIONAL:
        parameters.append(HEADERS["if_match"])
    if method == "POST" and not route.name.startswith(REPEATABLE):
        parameters.append(HEADERS["idempotency_key"])
    if not parameters:
        del operation["parameters"]
    if "health" in (route.tags or ()) or route.name in PUBLIC:
        operation["security"] = []


def _body(reader: JsonBody | BytesBody) -> dict[str, Any]:
    if isinstance(reader, BytesBody):
        return {"required": True, "content": {kind: {"schema": BYTES} for kind in reader.kinds}}
    return {"required": reader.required, "content": {"application/json": {"schema": refer(_name(reader))}}}


def _models(routes: list[APIRoute]) -> dict[str, Any]:
    """The schemas of bodies; a change has the fields of its model, none of them required."""
    readers = [reader for route in routes for reader in _readers(route) if isinstance(reader, JsonBody)]
    models: list[type[BaseModel]] = list(dict.fromkeys(reader.model for reader in readers))
    _, made = models_json_schema([(model, "validation") for model in models], ref_template=REFERENCE)
    schemas: dict[str, Any] = made.get("$defs", {})
    for reader in readers:
        if reader.partial:
            whole = schemas[reader.model.__name__]
            some = {key: value for key, value in whole.items() if key != "required"}
            schemas[_name(reader)] = {**some, "title": _name(reader)}
    whole_too = {_name(reader) for reader in readers}
    for reader in readers:
        if reader.model.__name__ not in whole_too:
            schemas.pop(reader.model.__name__, None)
    return schemas


def _name(reader: JsonBody) -> str:
    return f"{reader.model.__name__}{'Change' if reader.partial else ''}"


def _readers(route: APIRoute) -> Iterator[JsonBody | BytesBody | ListParams]:
    for part in calls_of(route.dependant):
        if isinstance(part.call, JsonBody | BytesBody | ListParams):
            yield part.call

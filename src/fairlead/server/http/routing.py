"""Routes that reject unknown query parameters and document all their responses.

Includes OpenAPI schemas of response fields that are plain dictionaries in the code.
"""

from collections.abc import Callable, Coroutine, Iterator, Mapping
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from fastapi.utils import create_model_field
from starlette.convertors import PathConvertor, register_url_convertor

from fairlead.server.http.parameters import reject_unknown
from fairlead.server.http.problem_details import PROBLEM, TITLES

API = "/api/v1"
BYTES: dict[str, Any] = {"type": "string", "format": "binary"}
# Errors that the OpenAPI document lists for each route that reads or writes.
READING = (400, 401, 403, 404, 408, 414, 422, 431, 503)
WRITING = (400, 401, 403, 404, 408, 409, 412, 413, 414, 415, 422, 428, 431, 503)

Schema = dict[str, Any]

REFERENCE = "#/components/schemas/{model}"
TEXT: Schema = {"type": "string"}


class FilePathConvertor(PathConvertor):
    """`{path:file}`: like Starlette's `path`, but file names may contain line breaks."""

    regex = r"[\s\S]*"


register_url_convertor("file", FilePathConvertor())


class StrictRoute(APIRoute):
    """A route that rejects unknown query parameters."""

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        # FastAPI would build a schema of each model when the server starts, but only the OpenAPI document needs them.
        responses = options.pop("responses") or {}
        self._models = {status: response["model"] for status, response in responses.items() if "model" in response}
        without_models = {status: {**response, "model": None} for status, response in responses.items()}
        super().__init__(path, endpoint, responses=without_models, **options)

    def describe_responses(self) -> None:
        """Build the schemas of the responses, for the OpenAPI document."""
        self.response_fields = {
            status: create_model_field(f"Response_{status}_{self.unique_id}", model, mode="serialization")
            for status, model in self._models.items()
        }

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()
        # First the parameters that ListParams reads from the query itself, then those that FastAPI reads.
        known = {name for dependant in dependants_of(self.dependant) for name in getattr(dependant.call, "names", ())}
        known |= {field.alias for dependant in dependants_of(self.dependant) for field in dependant.query_params}

        async def handle_strictly(request: Request) -> Response:
            if request.scope["query_string"]:
                reject_unknown(request, known)
            return await handle(request)

        return handle_strictly


def dependants_of(dependant: Dependant) -> Iterator[Dependant]:
    """A FastAPI dependant and all its dependencies."""
    yield dependant
    for inner in dependant.dependencies:
        yield from dependants_of(inner)


def make_router(tag: str, prefix: str = API) -> APIRouter:
    # A route's name is its operation ID. FastAPI's own IDs would also contain the path and method.
    return APIRouter(
        route_class=StrictRoute, tags=[tag], prefix=prefix, generate_unique_id_function=lambda route: route.name
    )


def responses(
    model: Any = None,
    *,
    status: int = 200,
    writing: bool = False,
    conflicts: bool = False,
    limited: bool = False,
    description: str = "Success",
) -> dict[str, Any]:
    """Keyword arguments that document a route's responses: status, model and possible errors.

    `writing`: include the errors of a route that changes something. `conflicts`: a read-only route can also return 409.
    `limited`: the route has a rate limit.
    """
    statuses = WRITING if writing else (*READING, 409) if conflicts else READING
    problems = {code: _problem(code) for code in sorted((*statuses, 429) if limited else statuses)}
    success: dict[str, Any] = {"description": description}
    if model is not None:
        success["model"] = model
    # Routes return encoded JSON, so FastAPI only documents the model.
    return {"status_code": status, "response_model": None, "responses": {status: success, **problems}}


def _problem(status: int) -> dict[str, Any]:
    schema = {"$ref": "#/components/schemas/Problem"}
    return {"description": TITLES[status], "content": {PROBLEM: {"schema": schema}}}


def schema_reference(model: str) -> Schema:
    return {"$ref": REFERENCE.format(model=model)}


def array_schema(schema: Schema) -> Schema:
    return {"type": "array", "items": schema}


def _object_schema(description: str, required: Mapping[str, Schema], /, **optional: Schema) -> Schema:
    return {
        "description": description,
        "type": "object",
        "required": list(required),
        "properties": {**required, **optional},
    }


_SOURCE: Schema = {"anyOf": [schema_reference("Source"), {"type": "null"}]}
_QUANTITY: Schema = {**TEXT, "description": "An amount in canonical form, such as 64Gi"}
_COUNT: Schema = {"type": "integer", "minimum": 0}

COMPONENTS: Mapping[str, Schema] = {
    "Problem": _object_schema(
        "An error (RFC 9457). Programs use `code`, which never changes; `detail` is for people.",
        {
            "type": TEXT,
            "title": TEXT,
            "status": {"type": "integer"},
            "code": TEXT,
            "detail": TEXT,
            "request_id": TEXT,
        },
        hint={**TEXT, "description": "How to fix it"},
        violations=array_schema(schema_reference("Finding")),
        used_by=array_schema(schema_reference("UsedBy")),
        retry_after_seconds={"type": "integer"},
    ),
    "UsedBy": _object_schema(
        "An object that prevents a deletion: a run, a template, a policy or a scope.",
        {"kind": TEXT, "name": TEXT, "scope": TEXT},
        state={**TEXT, "description": "State, if the object is a run"},
    ),
    "Finding": _object_schema(
        "A violation or a warning: its path, rule, message, hint and the source of the rule.",
        {"path": TEXT, "rule": TEXT, "message": TEXT, "hint": {"type": ["string", "null"]}, "source": _SOURCE},
        requested={
            **schema_reference("EffectiveValue"),
            "description": "For a warning: the requested value that was overridden",
        },
        location={**TEXT, "description": "The document that contains the problem"},
    ),
    "Setting": _object_schema(
        "A resolved value: its source, the values that it overrode or was combined with, and the reason.",
        {
            "path": TEXT,
            "value": {},
            "source": schema_reference("Source"),
            "overridden": array_schema(schema_reference("EffectiveValue")),
        },
        combined=array_schema(schema_reference("EffectiveValue")),
        reason=TEXT,
    ),
    "EffectiveRule": _object_schema(
        "The effective rule for a path: its limits, each with its source.",
        {},
        min=array_schema(schema_reference("EffectiveValue")),
        max=array_schema(schema_reference("EffectiveValue")),
        options=array_schema(schema_reference("EffectiveValue")),
        required=schema_reference("EffectiveValue"),
        locked=schema_reference("EffectiveValue"),
    ),
    "EffectiveQuota": _object_schema(
        "The quota of a scope: its limits and their current usage.",
        {"scope": TEXT, "used": schema_reference("ScopeUsage")},
        gpu=_COUNT,
        cpu=_QUANTITY,
        mem=_QUANTITY,
        runs=_COUNT,
    ),
    "RoleAtScope": _object_schema("A role in a scope.", {"role": schema_reference("Role"), "scope": TEXT}),
}
# Fields of responses that are plain dictionaries in the code.
FIELDS: Mapping[str, Mapping[str, Schema]] = {
    "Findings": {
        "violations": array_schema(schema_reference("Finding")),
        "warnings": array_schema(schema_reference("Finding")),
    },
    "RejectedItem": {"violations": array_schema(schema_reference("Finding"))},
    "PlanView": {
        "settings": array_schema(schema_reference("Setting")),
        "warnings": array_schema(schema_reference("Finding")),
        "violations": array_schema(schema_reference("Finding")),
        "fit": schema_reference("Fit"),
    },
    "FitReport": {"violations": array_schema(schema_reference("Finding"))},
    "CurrentUser": {"roles": array_schema(schema_reference("RoleAtScope"))},
    "EffectivePolicy": {
        "rules": {"type": "object", "additionalProperties": schema_reference("EffectiveRule")},
        "quotas": array_schema(schema_reference("EffectiveQuota")),
    },
}
# Fields that may be missing. All other fields of responses are always present.
OPTIONAL: Mapping[str, tuple[str, ...]] = {"PlanView": ("token",)}


def add_json_fields(schemas: dict[str, Schema]) -> None:
    """Add the fields in `FIELDS` to the response schemas, and mark which fields are required."""
    for name, schema in schemas.items():
        properties = schema.get("properties", {})
        properties |= FIELDS.get(name, {})
        if properties:
            schema["required"] = [field for field in properties if field not in OPTIONAL.get(name, ())]

"""Routes that reject unknown query parameters and document all their responses."""

from collections.abc import Callable, Coroutine, Iterator
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from starlette.convertors import PathConvertor, register_url_convertor

from fairlead.server.list_params import reject_unknown
from fairlead.server.problem_details import PROBLEM, TITLES

API = "/api/v1"
BYTES: dict[str, Any] = {"type": "string", "format": "binary"}
# Errors that the OpenAPI document lists for each route that reads or writes.
READING = (400, 401, 403, 404, 422, 503)
WRITING = (400, 401, 403, 404, 409, 412, 413, 415, 422, 428, 503)


class FilePathConvertor(PathConvertor):
    """`{path:file}`: like Starlette's `path`, but file names may contain line breaks."""

    regex = r"[\s\S]*"


register_url_convertor("file", FilePathConvertor())


class StrictRoute(APIRoute):
    """A route that rejects unknown query parameters."""

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
    description: str = "Success",
) -> dict[str, Any]:
    """Keyword arguments that document a route's responses: status, model and possible errors.

    `writing`: include the errors of a route that changes something. `conflicts`: a read-only route can also return 409.
    """
    statuses = WRITING if writing else (*READING, 409) if conflicts else READING
    problems = {code: _problem(code) for code in sorted(statuses)}
    success: dict[str, Any] = {"description": description}
    if model is not None:
        success["model"] = model
    # Routes return encoded JSON, so FastAPI only documents the model.
    return {"status_code": status, "response_model": None, "responses": {status: success, **problems}}


def _problem(status: int) -> dict[str, Any]:
    schema = {"$ref": "#/components/schemas/Problem"}
    return {"description": TITLES[status], "content": {PROBLEM: {"schema": schema}}}

"""Routes that take nothing they do not know, and say of themselves what they take and answer."""

from collections.abc import Callable, Coroutine, Iterator
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from starlette.convertors import PathConvertor, register_url_convertor

from fairlead.server.list_params import refuse_unknown
from fairlead.server.problem_details import PROBLEM, TITLES

API = "/api/v1"
BYTES: dict[str, Any] = {"type": "string", "format": "binary"}
READING = (400, 401, 403, 404, 422, 503)
WRITING = (400, 401, 403, 404, 409, 412, 413, 415, 422, 428, 503)


class FilePathConvertor(PathConvertor):
    """`{path:file}`: the rest of an address, which may name a file with line breaks. Those of `path` must not."""

    regex = r"[\s\S]*"


register_url_convertor("file", FilePathConvertor())


class StrictRoute(APIRoute):
    """A route that refuses parameters it does not know."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The handler, behind a look at the address."""
        handle = super().get_route_handler()
        known = {name for part in calls_of(self.dependant) for name in getattr(part.call, "names", ())}
        known |= {field.alias for part in calls_of(self.dependant) for field in part.query_params}

        async def handle_strictly(request: Request) -> Response:
            if request.scope["query_string"]:
                refuse_unknown(request, known)
            return await handle(request)

        return handle_strictly


def calls_of(dependant: Dependant) -> Iterator[Dependant]:
    """A dependant and all that it depends on."""
    yield dependant
    for inner in dependant.dependencies:
        yield from calls_of(inner)


def make_router(tag: str, prefix: str = API) -> APIRouter:
    """A router for the routes of one noun."""
    return APIRouter(
        route_class=StrictRoute, tags=[tag], prefix=prefix, generate_unique_id_function=lambda route: route.name
    )


def responses(
    model: Any = None, *, status: int = 200, writing: bool = False, conflicts: bool = False, about: str = "Done"
) -> dict[str, Any]:
    """What a route answers: its status, its model, and every problem that can come instead.

    Conflicts: also of one that only reads, where what it is about may be elsewhere or not finished.
    """
    told = WRITING if writing else (*READING, 409) if conflicts else READING
    problems = {code: _problem(code) for code in sorted(told)}
    done: dict[str, Any] = {"description": about}
    if model is not None:
        done["model"] = model
    return {"status_code": status, "response_model": None, "responses": {status: done, **problems}}


def _problem(status: int) -> dict[str, Any]:
    schema = {"$ref": "#/components/schemas/Problem"}
    return {"description": TITLES[status], "content": {PROBLEM: {"schema": schema}}}

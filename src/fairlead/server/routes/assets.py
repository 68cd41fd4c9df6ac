"""The routes that compute resources and templates have in common."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from fastapi import APIRouter, Depends, Query, Response

from fairlead.core.diffs import Difference
from fairlead.core.explanations import found_data
from fairlead.model.compute_resources import Named
from fairlead.model.names import ObjectName
from fairlead.model.parsing import Strict
from fairlead.model.plans import Sentence, Violation
from fairlead.model.queries import Page
from fairlead.model.records import RevisionRecord, RunRecord
from fairlead.server.list_params import ListParams
from fairlead.server.request_bodies import JsonBody
from fairlead.server.request_context import Context, Services
from fairlead.server.routing import make_router, responses
from fairlead.services.assets import Assets, Checked
from fairlead.services.pages import Listing

Number = Annotated[int, Query(ge=1, le=2**31 - 1)]


class Successor(Strict):
    """What is used where the archived one is named."""

    EXAMPLE: ClassVar[Any] = {"successor": "a100-80gb"}

    successor: ObjectName | None = None


@dataclass(frozen=True)
class Findings:
    """What keeps something from being used, what may surprise, and what a pod gets that uses it, in sentences.

    Sentences have paths of the requirements; so have violations and warnings, below `requirements`.
    """

    violations: list[dict[str, Any]]
    warnings: list[dict[str, Any]]
    sentences: list[Sentence]


def asset_routes(
    path: str, tag: str, kind: type, model: type[Named], pick: Callable[[Services], Assets[Any]]
) -> APIRouter:
    """List, show, create, check, edit, copy, archive, restore, delete, revisions and workloads of a kind of asset."""
    router, one = make_router(tag), tag.removesuffix("s")
    listed = Annotated[Listing, Depends(ListParams(kind))]
    runs_listed = Annotated[Listing, Depends(ListParams(RunRecord))]
    whole = Annotated[Any, Depends(JsonBody(model))]
    some = Annotated[dict[str, Any], Depends(JsonBody(model, partial=True))]
    successor = Annotated[Successor, Depends(JsonBody(Successor, required=False))]
    page: Any = Page[kind]  # type: ignore[valid-type]

    @router.get(path, name=f"list_{tag}", **responses(page, description="One page"))
    async def show_all(context: Context, asked: listed) -> Response:
        """List those that you see, with `search`, `sort`, a filter for each column, and a cursor."""
        return await context.respond(pick(context.services).page, asked)

    @router.post(path, name=f"create_{one}", **responses(kind, status=201, writing=True, description="Created"))
    async def create(context: Context, asset: whole) -> Response:
        """Create one."""
        return await context.respond(pick(context.services).create, asset, status=201)

    @router.post(f"{path}/check", name=f"check_{one}", **responses(Findings, writing=True))
    async def check(context: Context, asset: whole) -> Response:
        """Say what would be wrong with one, what may surprise its users, and what they get. Nothing is kept."""
        return await context.respond(lambda call: _sort(pick(context.services).check(call, asset)))

    @router.get(f"{path}/{{name}}", name=f"show_{one}", **responses(kind))
    async def show(context: Context, name: str) -> Response:
        """Show one, by name or id."""
        return await context.respond(pick(context.services).get, name, quick=True)

    @router.patch(f"{path}/{{name}}", name=f"edit_{one}", **responses(kind, writing=True))
    async def edit(context: Context, name: str, change: some, force: bool = False) -> Response:
        """Change the fields that are sent, each as a whole. A new name renames it; what uses it follows."""
        return await context.respond(pick(context.services).edit, name, change, force=force)

    @router.delete(
        f"{path}/{{name}}", name=f"delete_{one}", **responses(status=204, writing=True, description="Deleted")
    )
    async def delete(context: Context, name: str, force: bool = False) -> Response:
        """Delete one that nothing uses; otherwise `used_by` lists what does."""
        return await context.respond(pick(context.services).delete, name, force=force)

    @router.post(f"{path}/{{name}}/copy", name=f"copy_{one}", **responses(kind, status=201, writing=True))
    async def copy(context: Context, name: str, change: some) -> Response:
        """Create one like it, with another name and whatever else is sent."""
        return await context.respond(pick(context.services).copy, name, change, status=201)

    @router.post(f"{path}/{{name}}/archive", name=f"archive_{one}", **responses(kind, writing=True))
    async def archive(context: Context, name: str, to: successor, force: bool = False) -> Response:
        """Hide one from those who choose. Where it is named, its successor is used, with a warning."""
        return await context.respond(pick(context.services).archive, name, to.successor, force=force)

    @router.post(f"{path}/{{name}}/restore", name=f"restore_{one}", **responses(kind, writing=True))
    async def restore(context: Context, name: str, force: bool = False) -> Response:
        """Show an archived one again to those who choose."""
        return await context.respond(pick(context.services).restore, name, force=force)

    @router.get(f"{path}/{{name}}/revisions", name=f"list_{one}_revisions", **responses(list[RevisionRecord]))
    async def revisions(context: Context, name: str) -> Response:
        """Show what it was after each save, the newest first."""
        return await context.respond(pick(context.services).revisions, name)

    @router.get(f"{path}/{{name}}/diff", name=f"compare_{one}_revisions", **responses(list[Difference]))
    async def diff(context: Context, name: str, old: Number, new: Number) -> Response:
        """Show every path that differs between two revisions."""
        return await context.respond(pick(context.services).compare, name, old, new)

    @router.get(f"{path}/{{name}}/workloads", name=f"list_{one}_workloads", **responses(Page[RunRecord]))
    async def workloads(context: Context, name: str, asked: runs_listed) -> Response:
        """List the runs that use it: those that are not finished, unless `live` or `state` is asked for."""
        return await context.respond(pick(context.services).workloads, name, asked)

    return router


def _sort(checked: Checked) -> Findings:
    broken = [found_data(item) for item in checked.findings if isinstance(item, Violation)]
    warnings = [found_data(item) for item in checked.findings if not isinstance(item, Violation)]
    return Findings(broken, warnings, list(checked.sentences))

"""The routes that compute resources and templates have in common."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from fastapi import APIRouter, Depends, Query, Response

from fairlead.core.comparing import Difference
from fairlead.core.explaining import found_data
from fairlead.model.compute_resources import Named
from fairlead.model.names import ObjectName
from fairlead.model.parsing import Strict
from fairlead.model.plans import Sentence, Violation
from fairlead.model.queries import Page
from fairlead.model.records import RevisionRecord, RunRecord
from fairlead.server.list_params import Asked
from fairlead.server.request_bodies import Written
from fairlead.server.request_context import Door, Services
from fairlead.server.routing import answers, make_router
from fairlead.services.assets import Assets, Checked
from fairlead.services.listing import Listing

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
    listed = Annotated[Listing, Depends(Asked(kind))]
    runs_listed = Annotated[Listing, Depends(Asked(RunRecord))]
    whole = Annotated[Any, Depends(Written(model))]
    some = Annotated[dict[str, Any], Depends(Written(model, partial=True))]
    successor = Annotated[Successor, Depends(Written(Successor, required=False))]
    page: Any = Page[kind]  # type: ignore[valid-type]

    @router.get(path, name=f"list_{tag}", **answers(page, about="One page"))
    async def show_all(door: Door, asked: listed) -> Response:
        """List those that you see, with `search`, `sort`, a filter for each column, and a cursor."""
        return await door.answer(pick(door.services).page, asked)

    @router.post(path, name=f"create_{one}", **answers(kind, status=201, writing=True, about="Created"))
    async def create(door: Door, asset: whole) -> Response:
        """Create one."""
        return await door.answer(pick(door.services).create, asset, status=201)

    @router.post(f"{path}/check", name=f"check_{one}", **answers(Findings, writing=True))
    async def check(door: Door, asset: whole) -> Response:
        """Say what would be wrong with one, what may surprise its users, and what they get. Nothing is kept."""
        return await door.answer(lambda call: _sort(pick(door.services).check(call, asset)))

    @router.get(f"{path}/{{name}}", name=f"show_{one}", **answers(kind))
    async def show(door: Door, name: str) -> Response:
        """Show one, by name or id."""
        return await door.answer(pick(door.services).get, name, quick=True)

    @router.patch(f"{path}/{{name}}", name=f"edit_{one}", **answers(kind, writing=True))
    async def edit(door: Door, name: str, change: some, force: bool = False) -> Response:
        """Change the fields that are sent, each as a whole. A new name renames it; what uses it follows."""
        return await door.answer(pick(door.services).edit, name, change, force=force)

    @router.delete(f"{path}/{{name}}", name=f"delete_{one}", **answers(status=204, writing=True, about="Deleted"))
    async def delete(door: Door, name: str, force: bool = False) -> Response:
        """Delete one that nothing uses; otherwise `used_by` lists what does."""
        return await door.answer(pick(door.services).delete, name, force=force)

    @router.post(f"{path}/{{name}}/copy", name=f"copy_{one}", **answers(kind, status=201, writing=True))
    async def copy(door: Door, name: str, change: some) -> Response:
        """Create one like it, with another name and whatever else is sent."""
        return await door.answer(pick(door.services).copy, name, change, status=201)

    @router.post(f"{path}/{{name}}/archive", name=f"archive_{one}", **answers(kind, writing=True))
    async def archive(door: Door, name: str, to: successor, force: bool = False) -> Response:
        """Hide one from those who choose. Where it is named, its successor is used, with a warning."""
        return await door.answer(pick(door.services).archive, name, to.successor, force=force)

    @router.post(f"{path}/{{name}}/restore", name=f"restore_{one}", **answers(kind, writing=True))
    async def restore(door: Door, name: str, force: bool = False) -> Response:
        """Show an archived one again to those who choose."""
        return await door.answer(pick(door.services).restore, name, force=force)

    @router.get(f"{path}/{{name}}/revisions", name=f"list_{one}_revisions", **answers(list[RevisionRecord]))
    async def revisions(door: Door, name: str) -> Response:
        """Show what it was after each save, the newest first."""
        return await door.answer(pick(door.services).revisions, name)

    @router.get(f"{path}/{{name}}/diff", name=f"compare_{one}_revisions", **answers(list[Difference]))
    async def diff(door: Door, name: str, old: Number, new: Number) -> Response:
        """Show every path that differs between two revisions."""
        return await door.answer(pick(door.services).compare, name, old, new)

    @router.get(f"{path}/{{name}}/workloads", name=f"list_{one}_workloads", **answers(Page[RunRecord]))
    async def workloads(door: Door, name: str, asked: runs_listed) -> Response:
        """List the runs that use it: those that are not finished, unless `live` or `state` is asked for."""
        return await door.answer(pick(door.services).workloads, name, asked)

    return router


def _sort(checked: Checked) -> Findings:
    broken = [found_data(item) for item in checked.findings if isinstance(item, Violation)]
    warnings = [found_data(item) for item in checked.findings if not isinstance(item, Violation)]
    return Findings(broken, warnings, list(checked.sentences))

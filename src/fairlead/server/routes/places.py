"""The organisation tree over HTTP: all scopes, and clusters, departments and projects each under their own name."""

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Response

from fairlead.model.queries import Page
from fairlead.model.records import PlaceRecord
from fairlead.model.scopes import Cluster, Department, Place, Project
from fairlead.server.bodies import Written
from fairlead.server.doors import Door
from fairlead.server.listings import Asked
from fairlead.server.routing import answers, make_router
from fairlead.services.listing import Listing

Listed = Annotated[Listing, Depends(Asked(PlaceRecord))]

router = make_router("scopes")


@router.get("/scopes", name="list_scopes", **answers(Page[PlaceRecord]))
async def list_scopes(door: Door, asked: Listed) -> Response:
    """List every place that you see; `parent` says where it stands."""
    return await door.answer(door.services.places.page, asked)


def place_routes(model: type[Place]) -> APIRouter:
    """List, show, create, edit and delete places of a kind."""
    kind = model.KIND
    path, tag = f"/{kind}s", f"{kind}s"
    places = make_router(tag)
    whole = Annotated[Any, Depends(Written(model))]
    some = Annotated[dict[str, Any], Depends(Written(model, partial=True))]

    @places.get(path, name=f"list_{tag}", **answers(Page[PlaceRecord], about="One page"))
    async def show_all(door: Door, asked: Listed) -> Response:
        """List those that you see."""
        return await door.answer(door.services.places.page, asked, kind)

    @places.post(path, name=f"create_{kind}", **answers(PlaceRecord, status=201, writing=True, about="Created"))
    async def create(door: Door, place: whole) -> Response:
        """Create one below its parent."""
        return await door.answer(door.services.places.create, place, status=201)

    @places.get(f"{path}/{{name}}", name=f"show_{kind}", **answers(PlaceRecord))
    async def show(door: Door, name: str) -> Response:
        """Show one."""
        return await door.answer(door.services.places.get, f"{kind}/{name}")

    @places.patch(f"{path}/{{name}}", name=f"edit_{kind}", **answers(PlaceRecord, writing=True))
    async def edit(door: Door, name: str, change: some, force: bool = False) -> Response:
        """Change the fields that are sent: a new name renames it, a new parent moves it with all below it."""
        return await door.answer(door.services.places.edit, f"{kind}/{name}", change, force=force)

    @places.delete(f"{path}/{{name}}", name=f"delete_{kind}", **answers(status=204, writing=True, about="Deleted"))
    async def delete(door: Door, name: str, force: bool = False) -> Response:
        """Delete one in which nothing lives; otherwise `used_by` lists what does."""
        return await door.answer(door.services.places.delete, f"{kind}/{name}", force=force)

    return places


for _model in (Cluster, Department, Project):
    router.routes += place_routes(_model).routes

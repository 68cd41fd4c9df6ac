"""The organization tree over HTTP: all scopes, and clusters, departments and projects each under their own name."""

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Response

from fairlead.model.queries import Page
from fairlead.model.records import ScopeRecord
from fairlead.model.scopes import Cluster, Department, Project, Scope
from fairlead.server.list_params import ListParams
from fairlead.server.request_bodies import JsonBody
from fairlead.server.request_context import Context
from fairlead.server.routing import make_router, responses
from fairlead.services.pages import Listing

Listed = Annotated[Listing, Depends(ListParams(ScopeRecord))]

router = make_router("scopes")


@router.get("/scopes", name="list_scopes", **responses(Page[ScopeRecord]))
async def list_scopes(context: Context, asked: Listed) -> Response:
    """List every place that you see; `parent` says where it stands."""
    return await context.respond(context.services.scopes.page, asked)


def scope_routes(model: type[Scope]) -> APIRouter:
    """List, show, create, edit and delete places of a kind."""
    kind = model.KIND
    path, tag = f"/{kind}s", f"{kind}s"
    scopes = make_router(tag)
    whole = Annotated[Any, Depends(JsonBody(model))]
    some = Annotated[dict[str, Any], Depends(JsonBody(model, partial=True))]

    @scopes.get(path, name=f"list_{tag}", **responses(Page[ScopeRecord], description="One page"))
    async def show_all(context: Context, asked: Listed) -> Response:
        """List those that you see."""
        return await context.respond(context.services.scopes.page, asked, kind)

    @scopes.post(path, name=f"create_{kind}", **responses(ScopeRecord, status=201, writing=True, description="Created"))
    async def create(context: Context, place: whole) -> Response:
        """Create one below its parent."""
        return await context.respond(context.services.scopes.create, place, status=201)

    @scopes.get(f"{path}/{{name}}", name=f"show_{kind}", **responses(ScopeRecord))
    async def show(context: Context, name: str) -> Response:
        """Show one."""
        return await context.respond(context.services.scopes.get, f"{kind}/{name}")

    @scopes.patch(f"{path}/{{name}}", name=f"edit_{kind}", **responses(ScopeRecord, writing=True))
    async def edit(context: Context, name: str, change: some, force: bool = False) -> Response:
        """Change the fields that are sent: a new name renames it, a new parent moves it with all below it."""
        return await context.respond(context.services.scopes.edit, f"{kind}/{name}", change, force=force)

    @scopes.delete(
        f"{path}/{{name}}", name=f"delete_{kind}", **responses(status=204, writing=True, description="Deleted")
    )
    async def delete(context: Context, name: str, force: bool = False) -> Response:
        """Delete one in which nothing lives; otherwise `used_by` lists what does."""
        return await context.respond(context.services.scopes.delete, f"{kind}/{name}", force=force)

    return scopes


for _model in (Cluster, Department, Project):
    router.routes += scope_routes(_model).routes

"""Routes for scopes: clusters, departments and projects."""

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Response

from fairlead.model.columns import Page
from fairlead.model.records import ScopeRecord
from fairlead.model.scopes import Cluster, Department, Project, Scope
from fairlead.server.http.parameters import JsonBody, ListParams
from fairlead.server.http.request_context import Context
from fairlead.server.http.routing import make_router, responses
from fairlead.services.transactions.pages import ListQuery

ScopeListParams = Annotated[ListQuery, Depends(ListParams(ScopeRecord))]

router = make_router("scopes")


@router.get("/scopes", name="list_scopes", **responses(Page[ScopeRecord]))
async def list_scopes(context: Context, params: ScopeListParams) -> Response:
    """List all scopes that you can view, with their parents."""
    return await context.respond(context.services.scopes.page, params)


def scope_routes(model: type[Scope]) -> APIRouter:
    """Create the routes of a kind of scope."""
    kind = model.KIND
    path, tag = f"/{kind}s", f"{kind}s"
    scopes = make_router(tag)
    body = Annotated[Any, Depends(JsonBody(model))]
    change_body = Annotated[dict[str, Any], Depends(JsonBody(model, partial=True))]

    @scopes.get(path, name=f"list_{tag}", **responses(Page[ScopeRecord], description="A page"))
    async def show_all(context: Context, params: ScopeListParams) -> Response:
        """List the scopes of this kind that you can view."""
        return await context.respond(context.services.scopes.page, params, kind)

    @scopes.post(path, name=f"create_{kind}", **responses(ScopeRecord, status=201, writing=True, description="Created"))
    async def create(context: Context, scope: body) -> Response:
        """Create a scope below its parent."""
        return await context.respond(context.services.scopes.create, scope, status=201)

    @scopes.get(f"{path}/{{name}}", name=f"show_{kind}", **responses(ScopeRecord))
    async def show(context: Context, name: str) -> Response:
        """Show a scope."""
        return await context.respond(context.services.scopes.get, f"{kind}/{name}")

    @scopes.patch(f"{path}/{{name}}", name=f"edit_{kind}", **responses(ScopeRecord, writing=True))
    async def edit(context: Context, name: str, change: change_body, force: bool = False) -> Response:
        """Change the fields that are sent. A new name renames the scope; a new parent moves it and its children."""
        return await context.respond(context.services.scopes.edit, f"{kind}/{name}", change, force=force)

    @scopes.delete(
        f"{path}/{{name}}", name=f"delete_{kind}", **responses(status=204, writing=True, description="Deleted")
    )
    async def delete(context: Context, name: str, force: bool = False) -> Response:
        """Delete an empty scope; otherwise `used_by` lists its contents."""
        return await context.respond(context.services.scopes.delete, f"{kind}/{name}", force=force)

    return scopes


for _model in (Cluster, Department, Project):
    router.routes += scope_routes(_model).routes

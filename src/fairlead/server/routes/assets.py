"""Routes for compute resources and templates."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from fastapi import APIRouter, Depends, Query, Response

from fairlead.model.assets import ComputeResource, Difference, NamedRequirements, Template
from fairlead.model.columns import Page
from fairlead.model.explanations import finding_data
from fairlead.model.names import ObjectName
from fairlead.model.parsing import StrictModel
from fairlead.model.plans import Sentence, Violation
from fairlead.model.records import ComputeResourceRecord, RevisionRecord, RunRecord, TemplateRecord
from fairlead.server.http.parameters import JsonBody, ListParams
from fairlead.server.http.request_context import Context
from fairlead.server.http.routing import make_router, responses
from fairlead.services.catalog.assets import AssetCheck, Assets
from fairlead.services.registry import Services
from fairlead.services.transactions.pages import ListQuery

Number = Annotated[int, Query(ge=1, le=2**31 - 1)]  # PostgreSQL integers have 32 bits


class Successor(StrictModel):
    """The replacement for an archived object."""

    EXAMPLE: ClassVar[Any] = {"successor": "a100-80gb"}

    successor: ObjectName | None = None


@dataclass(frozen=True)
class Findings:
    """The violations and warnings of an object, and sentences that describe what each pod gets.

    Paths in sentences are relative to `requirements`; paths in violations and warnings include it.
    """

    violations: list[dict[str, Any]]
    warnings: list[dict[str, Any]]
    sentences: list[Sentence]


def asset_routes(
    path: str, tag: str, kind: type, model: type[NamedRequirements], pick: Callable[[Services], Assets[Any]]
) -> APIRouter:
    """Create the routes of a kind of object that has revisions: compute resources or templates."""
    router, one = make_router(tag), tag.removesuffix("s")
    list_params = Annotated[ListQuery, Depends(ListParams(kind))]
    run_list_params = Annotated[ListQuery, Depends(ListParams(RunRecord))]
    body = Annotated[Any, Depends(JsonBody(model))]
    change_body = Annotated[dict[str, Any], Depends(JsonBody(model, partial=True))]
    archive_body = Annotated[Successor, Depends(JsonBody(Successor, required=False))]
    page: Any = Page[kind]  # type: ignore[valid-type]

    @router.get(path, name=f"list_{tag}", **responses(page, description="A page"))
    async def show_all(context: Context, params: list_params) -> Response:
        """List the objects that you can view. Supports `search`, `sort`, filters by column and a cursor."""
        return await context.respond(pick(context.services).page, params)

    @router.post(path, name=f"create_{one}", **responses(kind, status=201, writing=True, description="Created"))
    async def create(context: Context, asset: body) -> Response:
        """Create an object."""
        return await context.respond(pick(context.services).create, asset, status=201)

    @router.post(f"{path}/check", name=f"check_{one}", **responses(Findings, writing=True))
    async def check(context: Context, asset: body) -> Response:
        """Check an object without saving it: violations, warnings, and what each pod would get."""
        return await context.respond(lambda call: _sort_findings(pick(context.services).check(call, asset)))

    @router.get(f"{path}/{{name}}", name=f"show_{one}", **responses(kind))
    async def show(context: Context, name: str) -> Response:
        """Show an object by name or ID."""
        return await context.respond(pick(context.services).get, name, quick=True)

    @router.patch(f"{path}/{{name}}", name=f"edit_{one}", **responses(kind, writing=True))
    async def edit(context: Context, name: str, change: change_body, force: bool = False) -> Response:
        """Replace the fields that are sent. A new name renames the object, and references to it are updated."""
        return await context.respond(pick(context.services).edit, name, change, force=force)

    @router.delete(
        f"{path}/{{name}}", name=f"delete_{one}", **responses(status=204, writing=True, description="Deleted")
    )
    async def delete(context: Context, name: str, force: bool = False) -> Response:
        """Delete an object that is not in use; otherwise `used_by` lists what uses it."""
        return await context.respond(pick(context.services).delete, name, force=force)

    @router.post(f"{path}/{{name}}/copy", name=f"copy_{one}", **responses(kind, status=201, writing=True))
    async def copy(context: Context, name: str, change: change_body) -> Response:
        """Create a copy with a new name. The fields that are sent replace those of the original."""
        return await context.respond(pick(context.services).copy, name, change, status=201)

    @router.post(f"{path}/{{name}}/archive", name=f"archive_{one}", **responses(kind, writing=True))
    async def archive(context: Context, name: str, archived: archive_body, force: bool = False) -> Response:
        """Archive an object. References to it use its successor, with a warning."""
        return await context.respond(pick(context.services).archive, name, archived.successor, force=force)

    @router.post(f"{path}/{{name}}/restore", name=f"restore_{one}", **responses(kind, writing=True))
    async def restore(context: Context, name: str, force: bool = False) -> Response:
        """Restore an archived object."""
        return await context.respond(pick(context.services).restore, name, force=force)

    @router.get(f"{path}/{{name}}/revisions", name=f"list_{one}_revisions", **responses(list[RevisionRecord]))
    async def revisions(context: Context, name: str) -> Response:
        """List the revisions of an object, newest first."""
        return await context.respond(pick(context.services).revisions, name)

    @router.get(f"{path}/{{name}}/diff", name=f"compare_{one}_revisions", **responses(list[Difference]))
    async def diff(context: Context, name: str, old: Number, new: Number) -> Response:
        """List the differences between two revisions."""
        return await context.respond(pick(context.services).compare, name, old, new)

    @router.get(f"{path}/{{name}}/workloads", name=f"list_{one}_workloads", **responses(Page[RunRecord]))
    async def workloads(context: Context, name: str, params: run_list_params) -> Response:
        """List the runs that use an object: the active ones, unless you filter by `active` or `state`."""
        return await context.respond(pick(context.services).workloads, name, params)

    return router


def _sort_findings(checked: AssetCheck) -> Findings:
    violations = [finding_data(item) for item in checked.findings if isinstance(item, Violation)]
    warnings = [finding_data(item) for item in checked.findings if not isinstance(item, Violation)]
    return Findings(violations, warnings, list(checked.sentences))


compute_resources_router = asset_routes(
    "/compute-resources",
    "compute_resources",
    ComputeResourceRecord,
    ComputeResource,
    lambda services: services.compute_resources,
)


@compute_resources_router.get(
    "/compute-resources/{name}/templates", name="list_compute_resource_templates", **responses(list[TemplateRecord])
)
async def list_compute_resource_templates(context: Context, name: str) -> Response:
    """List the templates that use a compute resource."""
    return await context.respond(context.services.compute_resources.templates, name)


templates_router = asset_routes(
    "/templates", "templates", TemplateRecord, Template, lambda services: services.templates
)

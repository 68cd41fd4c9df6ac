"""Routes for compute resources."""

from fastapi import Response

from fairlead.model.assets import ComputeResource
from fairlead.model.records import ComputeResourceRecord, TemplateRecord
from fairlead.server.request_context import Context
from fairlead.server.routes.assets import asset_routes
from fairlead.server.routing import responses

router = asset_routes(
    "/compute-resources",
    "compute_resources",
    ComputeResourceRecord,
    ComputeResource,
    lambda services: services.compute_resources,
)


@router.get(
    "/compute-resources/{name}/templates", name="list_compute_resource_templates", **responses(list[TemplateRecord])
)
async def templates(context: Context, name: str) -> Response:
    """List the templates that use a compute resource."""
    return await context.respond(context.services.compute_resources.templates, name)

"""Routes for the functions, secrets and volumes of projects."""

from typing import Annotated, Any

import msgspec
from fastapi import Depends, Response

from fairlead.model.columns import Page
from fairlead.model.project_objects import FunctionDefinition, SecretValue, SharedVolume
from fairlead.model.records import FunctionRecord, SecretRecord, VolumeRecord
from fairlead.server.http.parameters import JsonBody, ListParams
from fairlead.server.http.request_context import Context, make_response
from fairlead.server.http.routing import make_router, responses
from fairlead.services.organization.project_objects import SecretView
from fairlead.services.runs.functions import CodeView
from fairlead.services.transactions.pages import ListQuery

router = make_router("projects")
FunctionListParams = Annotated[ListQuery, Depends(ListParams(FunctionRecord))]
# The project in the path determines the scope, so it is not a filter.
SecretListParams = Annotated[ListQuery, Depends(ListParams(SecretRecord, hidden=("scope",)))]
VolumeListParams = Annotated[ListQuery, Depends(ListParams(VolumeRecord, hidden=("scope",)))]
FunctionBody = Annotated[FunctionDefinition, Depends(JsonBody(FunctionDefinition))]
SecretBody = Annotated[SecretValue, Depends(JsonBody(SecretValue))]
VolumeBody = Annotated[SharedVolume, Depends(JsonBody(SharedVolume))]


def _put(model: type) -> dict[str, Any]:
    """Keyword arguments of a route that creates or replaces an object."""
    options = responses(model, writing=True, description="Replaced")
    return options | {"responses": options["responses"] | {201: {"model": model, "description": "Created"}}}


@router.get("/functions", name="list_functions", **responses(Page[FunctionRecord]))
async def list_functions(context: Context, params: FunctionListParams) -> Response:
    """List the functions that you can view."""
    return await context.respond(context.services.functions.page, params)


@router.get("/projects/{project}/functions", name="list_project_functions", **responses(Page[FunctionRecord]))
async def list_functions_of(context: Context, project: str, params: FunctionListParams) -> Response:
    """List the functions of a project."""
    return await context.respond(context.services.functions.page, params, f"project/{project}")


@router.get("/projects/{project}/functions/{name}", name="show_function", **responses(FunctionRecord))
async def show_function(context: Context, project: str, name: str) -> Response:
    """Show a function as it was last saved or run."""
    return await context.respond(context.services.functions.get, f"project/{project}", name)


@router.put("/projects/{project}/functions/{name}", name="put_function", **_put(FunctionRecord))
async def put_function(context: Context, project: str, name: str, function: FunctionBody) -> Response:
    """Save a function for runs to reference by name. `text` is source code, as an alternative to uploaded code."""
    record, is_new = await context.run_in_thread(context.services.functions.put, f"project/{project}", name, function)
    return make_response(msgspec.json.encode(record), record, 201 if is_new else 200, context.request)


@router.delete("/projects/{project}/functions/{name}", name="delete_function", **responses(status=204, writing=True))
async def delete_function(context: Context, project: str, name: str) -> Response:
    """Delete a function. Its runs are kept."""
    return await context.respond(context.services.functions.delete, f"project/{project}", name)


@router.get("/projects/{project}/functions/{name}/code", name="show_function_code", **responses(CodeView))
async def show_code(context: Context, project: str, name: str) -> Response:
    """Show the files of a function's code."""
    return await context.respond(context.services.functions.code, f"project/{project}", name)


@router.get("/projects/{project}/secrets", name="list_secrets", **responses(Page[SecretView]))
async def list_secrets(context: Context, project: str, params: SecretListParams) -> Response:
    """List the names of a project's secrets. Their values are never shown."""
    return await context.respond(context.services.secrets.page, f"project/{project}", params)


@router.put("/projects/{project}/secrets/{name}", name="put_secret", **_put(SecretView))
async def put_secret(context: Context, project: str, name: str, secret: SecretBody) -> Response:
    """Create or replace a secret."""
    record, is_new = await context.run_in_thread(context.services.secrets.put, f"project/{project}", name, secret.value)
    return make_response(msgspec.json.encode(record), record, 201 if is_new else 200, context.request)


@router.delete("/projects/{project}/secrets/{name}", name="delete_secret", **responses(status=204, writing=True))
async def delete_secret(context: Context, project: str, name: str) -> Response:
    """Delete a secret."""
    return await context.respond(context.services.secrets.delete, f"project/{project}", name)


@router.get("/projects/{project}/volumes", name="list_volumes", **responses(Page[VolumeRecord]))
async def list_volumes(context: Context, project: str, params: VolumeListParams) -> Response:
    """List the shared volumes of a project."""
    return await context.respond(context.services.volumes.page, f"project/{project}", params)


@router.post("/projects/{project}/volumes", name="create_volume", **responses(VolumeRecord, status=201, writing=True))
async def create_volume(context: Context, project: str, volume: VolumeBody) -> Response:
    """Create a shared volume. Runs mount it with type `shared_volume` and its name as `claim_name`."""
    return await context.respond(context.services.volumes.create, f"project/{project}", volume, status=201)


@router.get("/projects/{project}/volumes/{name}", name="show_volume", **responses(VolumeRecord))
async def show_volume(context: Context, project: str, name: str) -> Response:
    """Show a volume."""
    return await context.respond(context.services.volumes.get, f"project/{project}", name)


@router.delete("/projects/{project}/volumes/{name}", name="delete_volume", **responses(status=204, writing=True))
async def delete_volume(context: Context, project: str, name: str) -> Response:
    """Delete a volume that no active run uses."""
    return await context.respond(context.services.volumes.delete, f"project/{project}", name)

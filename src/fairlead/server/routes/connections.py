"""Routes for the connections to clusters: kubeconfigs and checks."""

from typing import Annotated, Any, ClassVar

import msgspec
from fastapi import Depends, Response
from pydantic import Field

from fairlead.model.project_objects import SensitiveModel
from fairlead.model.runs import Check
from fairlead.server.http.parameters import JsonBody
from fairlead.server.http.request_context import ClusterContext, Context, make_response
from fairlead.server.http.routing import make_router, responses
from fairlead.services.organization.clusters import KubeconfigView

router = make_router("clusters")
PATH = "/clusters/{name}/kubeconfig"


class Kubeconfig(SensitiveModel):
    """A kubeconfig and one of its contexts; by default the current context. Only that context is stored."""

    EXAMPLE: ClassVar[Any] = {"kubeconfig": "apiVersion: v1\nkind: Config\n...", "context": "main"}

    kubeconfig: str = Field(repr=False)
    context: str | None = None


KubeconfigBody = Annotated[Kubeconfig, Depends(JsonBody(Kubeconfig))]
_CREATED = {201: {"model": KubeconfigView, "description": "Created"}}
_PUT = responses(KubeconfigView, writing=True, description="Replaced")


@router.get(PATH, name="show_kubeconfig", **responses(KubeconfigView))
async def show(context: Context, name: str) -> Response:
    """Show the server and the user in a cluster's kubeconfig. Its secrets are never shown."""
    return await context.respond(context.services.connections.get, f"cluster/{name}")


@router.put(PATH, name="put_kubeconfig", **_PUT | {"responses": _PUT["responses"] | _CREATED})
async def put(context: Context, name: str, body: KubeconfigBody) -> Response:
    """Set the kubeconfig of a cluster. It must be self-contained: references to files and exec plugins are rejected."""
    use_case = context.services.connections.put
    view, is_new = await context.run_in_thread(use_case, f"cluster/{name}", body.kubeconfig, body.context)
    return make_response(msgspec.json.encode(view), view, 201 if is_new else 200, context.request)


@router.delete(PATH, name="delete_kubeconfig", **responses(status=204, writing=True, description="Deleted"))
async def delete(context: Context, name: str) -> Response:
    """Delete the kubeconfig of a cluster without active runs."""
    return await context.respond(context.services.connections.delete, f"cluster/{name}")


@router.post("/clusters/{name}/check", name="check_cluster", **responses(list[Check], writing=True))
async def check(context: ClusterContext, name: str) -> Response:
    """Check what runs need in a cluster: permissions, storage, GPUs, and access from pods to this server."""
    # Runs on the threads for clusters, because an unreachable cluster may take a long time to time out.
    return await context.respond(context.services.connections.check, f"cluster/{name}")

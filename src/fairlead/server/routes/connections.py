"""How clusters are reached, over HTTP: their kubeconfigs, and whether all is there for runs."""

from typing import Annotated, Any, ClassVar

import msgspec
from fastapi import Depends, Response
from pydantic import Field

from fairlead.model.observations import Check
from fairlead.model.project_objects import Hidden
from fairlead.server.request_bodies import JsonBody
from fairlead.server.request_context import ClusterContext, Context, make_response
from fairlead.server.routing import make_router, responses
from fairlead.services.connections import KubeconfigView

router = make_router("clusters")
PATH = "/clusters/{name}/kubeconfig"


class Kubeconfig(Hidden):
    """A kubeconfig, and which of its contexts is meant: left out, its current one. Only that is kept."""

    EXAMPLE: ClassVar[Any] = {"kubeconfig": "apiVersion: v1\nkind: Config\n...", "context": "main"}

    kubeconfig: str = Field(repr=False)
    context: str | None = None


WrittenKubeconfig = Annotated[Kubeconfig, Depends(JsonBody(Kubeconfig))]
_CREATED = {201: {"model": KubeconfigView, "description": "Created"}}
_PUT = responses(KubeconfigView, writing=True, description="Changed")


@router.get(PATH, name="show_kubeconfig", **responses(KubeconfigView))
async def show(context: Context, name: str) -> Response:
    """Show where the kubeconfig of a cluster leads, and as whom. What is secret in it is never shown."""
    return await context.respond(context.services.connections.get, f"cluster/{name}")


@router.put(PATH, name="put_kubeconfig", **_PUT | {"responses": _PUT["responses"] | _CREATED})
async def put(context: Context, name: str, said: WrittenKubeconfig) -> Response:
    """Reach a cluster by a kubeconfig, new or not. It must be whole: the server reads no files and runs no programs."""
    use_case = context.services.connections.put
    told, new = await context.run_in_thread(use_case, f"cluster/{name}", said.kubeconfig, said.context)
    return make_response(msgspec.json.encode(told), told, 201 if new else 200, context.request)


@router.delete(PATH, name="delete_kubeconfig", **responses(status=204, writing=True, description="Deleted"))
async def delete(context: Context, name: str) -> Response:
    """Reach a cluster no more, on which nothing is executed."""
    return await context.respond(context.services.connections.delete, f"cluster/{name}")


@router.post("/clusters/{name}/check", name="check_cluster", **responses(list[Check], writing=True))
async def check(context: ClusterContext, name: str) -> Response:
    """Look whether all is there that runs need: permissions, storage, GPUs, the way back to the server."""
    return await context.respond(context.services.connections.check, f"cluster/{name}")

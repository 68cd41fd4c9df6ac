"""What a project holds, over HTTP: secrets and volumes."""

from typing import Annotated

import msgspec
from fastapi import Depends, Response

from fairlead.model.holdings import SecretValue, SharedVolume
from fairlead.model.queries import Page
from fairlead.model.records import SecretRecord, VolumeRecord
from fairlead.server.bodies import Written
from fairlead.server.doors import Door, reply
from fairlead.server.listings import Asked
from fairlead.server.routing import answers, make_router
from fairlead.services.listing import Listing
from fairlead.services.secrets import SecretName

router = make_router("projects")
SecretsListed = Annotated[Listing, Depends(Asked(SecretRecord, hidden=("scope",)))]
VolumesListed = Annotated[Listing, Depends(Asked(VolumeRecord, hidden=("scope",)))]
WrittenSecret = Annotated[SecretValue, Depends(Written(SecretValue))]
WrittenVolume = Annotated[SharedVolume, Depends(Written(SharedVolume))]


@router.get("/projects/{project}/secrets", name="list_secrets", **answers(Page[SecretName]))
async def list_secrets(door: Door, project: str, asked: SecretsListed) -> Response:
    """List the names of a project's secrets. Their values are never shown."""
    return await door.answer(door.services.secrets.page, f"project/{project}", asked)


_CREATED = {201: {"model": SecretName, "description": "Created"}}
_PUT = answers(SecretName, writing=True, about="Changed")


@router.put(
    "/projects/{project}/secrets/{name}", name="put_secret", **_PUT | {"responses": _PUT["responses"] | _CREATED}
)
async def put_secret(door: Door, project: str, name: str, secret: WrittenSecret) -> Response:
    """Set a secret, new or not."""
    told, new = await door.perform(door.services.secrets.put, f"project/{project}", name, secret.value)
    return reply(msgspec.json.encode(told), told, 201 if new else 200, door.request)


@router.delete("/projects/{project}/secrets/{name}", name="delete_secret", **answers(status=204, writing=True))
async def delete_secret(door: Door, project: str, name: str) -> Response:
    """Delete a secret."""
    return await door.answer(door.services.secrets.delete, f"project/{project}", name)


@router.get("/projects/{project}/volumes", name="list_volumes", **answers(Page[VolumeRecord]))
async def list_volumes(door: Door, project: str, asked: VolumesListed) -> Response:
    """List the volumes that a project's runs may share."""
    return await door.answer(door.services.volumes.page, f"project/{project}", asked)


@router.post("/projects/{project}/volumes", name="create_volume", **answers(VolumeRecord, status=201, writing=True))
async def create_volume(door: Door, project: str, volume: WrittenVolume) -> Response:
    """Create a volume that runs mount with `shared_volume` and its name as `claim_name`."""
    return await door.answer(door.services.volumes.create, f"project/{project}", volume, status=201)


@router.get("/projects/{project}/volumes/{name}", name="show_volume", **answers(VolumeRecord))
async def show_volume(door: Door, project: str, name: str) -> Response:
    """Show a volume."""
    return await door.answer(door.services.volumes.get, f"project/{project}", name)


@router.delete("/projects/{project}/volumes/{name}", name="delete_volume", **answers(status=204, writing=True))
async def delete_volume(door: Door, project: str, name: str) -> Response:
    """Delete a volume that no unfinished run uses."""
    return await door.answer(door.services.volumes.delete, f"project/{project}", name)

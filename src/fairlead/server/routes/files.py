"""Files over HTTP: apply documents, all together or not at all, and get them back."""

from typing import Annotated, Any, ClassVar

from fastapi import Depends, Response

from fairlead.errors import RequestRejected
from fairlead.files.documents import read_library
from fairlead.model.names import Name
from fairlead.model.parsing import Flag, Strict
from fairlead.model.plans import Violation
from fairlead.server.request_bodies import JsonBody
from fairlead.server.request_context import Context
from fairlead.server.routing import make_router, responses
from fairlead.services.config_files import FOLDER, Applied, Apply

router = make_router("files")


class Documents(Strict):
    """Documents to apply, and how."""

    EXAMPLE: ClassVar[Any] = {"documents": [{"kind": "Project", "name": "forest"}], "dry_run": True}

    documents: tuple[dict[str, Any], ...]
    manager: Name = "files"
    prune: Flag = False
    dry_run: Flag = False
    force: Flag = False


WrittenDocuments = Annotated[Documents, Depends(JsonBody(Documents))]


@router.post("/apply", name="apply_documents", **responses(Applied, writing=True))
async def apply(context: Context, said: WrittenDocuments) -> Response:
    """Make everything as the documents say. What they made is managed by them from then on."""
    if said.manager == FOLDER:
        message = f"{FOLDER} is the manager of the watched folder alone"
        raise RequestRejected([Violation("manager", "reserved", message, "choose another name")])
    how = Apply(said.manager, said.prune, said.dry_run, said.force)
    library = read_library(said.documents)
    return await context.respond(context.services.config_files.apply, library, how)


@router.get("/export", name="export_documents", **responses(list[dict[str, Any]]))
async def export(context: Context) -> Response:
    """Get everything that you see as documents, in the order in which they can be applied."""
    return await context.respond(context.services.config_files.export)

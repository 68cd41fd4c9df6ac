"""Routes to apply and export configuration documents."""

from typing import Annotated, Any, ClassVar

from fastapi import Depends, Response

from fairlead.errors import RequestRejected
from fairlead.files.documents import read_library
from fairlead.model.names import Name
from fairlead.model.parsing import Flag, StrictModel
from fairlead.model.plans import Violation
from fairlead.server.http.parameters import JsonBody
from fairlead.server.http.request_context import Context
from fairlead.server.http.routing import make_router, responses
from fairlead.services.config_files import FOLDER, ApplyOptions, ApplyResult

router = make_router("files")


class Documents(StrictModel):
    """Documents to apply, with options."""

    EXAMPLE: ClassVar[Any] = {"documents": [{"kind": "Project", "name": "forest"}], "dry_run": True}

    documents: tuple[dict[str, Any], ...]
    manager: Name = "files"  # the owner of the objects; other managers cannot change them without `force`
    prune: Flag = False  # delete objects of this manager that are not in the documents
    dry_run: Flag = False
    force: Flag = False


ApplyBody = Annotated[Documents, Depends(JsonBody(Documents))]


@router.post("/apply", name="apply_documents", **responses(ApplyResult, writing=True))
async def apply(context: Context, body: ApplyBody) -> Response:
    """Apply documents, all of them or none. The objects are managed by these documents from then on."""
    if body.manager == FOLDER:
        message = f"{FOLDER} is reserved for the watched folder"
        raise RequestRejected([Violation("manager", "reserved", message, "choose another name")])
    options = ApplyOptions(body.manager, body.prune, body.dry_run, body.force)
    library = read_library(body.documents)
    return await context.respond(context.services.config_files.apply, library, options)


@router.get("/export", name="export_documents", **responses(list[dict[str, Any]]))
async def export(context: Context) -> Response:
    """Export all objects that you can view as documents, in the order in which they can be applied."""
    return await context.respond(context.services.config_files.export)

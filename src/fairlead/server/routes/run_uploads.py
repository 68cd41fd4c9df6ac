"""Route for the files that runs on clusters upload."""

from typing import IO, Annotated

from fastapi import Depends, Response

from fairlead.server.request_bodies import SpooledBody
from fairlead.server.request_context import RunContext
from fairlead.server.routing import make_router, responses
from fairlead.services.runs.executions import UploadedFile

router = make_router("runs")
UploadBody = Annotated[IO[bytes], Depends(SpooledBody("application/octet-stream"))]


@router.put("/runs/{run_id}/uploads/{path:file}", name="upload_run_file", **responses(UploadedFile, writing=True))
async def upload_file(context: RunContext, run_id: str, path: str, file: UploadBody) -> Response:
    """Upload a file of a run: `result.json`, `error.json` or an output file. Only the run itself may do so."""
    return await context.respond(context.services.run_uploads.put, run_id, path, file)

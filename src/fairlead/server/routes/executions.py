"""What runs do and leave, over HTTP: logs, usage, files, results, history; and the code that they execute."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, BinaryIO, Literal
from urllib.parse import quote

from fastapi import Depends, Query, Response
from fastapi.responses import StreamingResponse

from fairlead.errors import RequestRejected
from fairlead.model.observations import LogPage, OutputFile
from fairlead.model.plans import Violation
from fairlead.model.records import EventRecord
from fairlead.run_tokens import is_run_token
from fairlead.server import streaming
from fairlead.server.middleware import is_head
from fairlead.server.request_bodies import RawBody
from fairlead.server.request_context import Context, UserOrRunContext
from fairlead.server.routing import BYTES, make_router, responses
from fairlead.services.attempts import AttemptView
from fairlead.services.calls import Call
from fairlead.services.executions import NodeView, Outcome, Usage
from fairlead.services.explanations import Why
from fairlead.services.stored_code import StoredCode

CHUNK = 256 * 1024
LARGEST_CURSOR = 2**62
LARGEST_ATTEMPT = 2**31 - 1

# One server-sent event: an entry of the log as `text` or `base64`, or its end.
EVENT: dict[str, Any] = {
    "type": "object",
    "required": ["id", "event", "data"],
    "properties": {
        "id": {"type": "string", "description": "the cursor of what follows"},
        "event": {"enum": ["log", "end"]},
        "data": {"type": "string", "contentMediaType": "application/json"},
    },
}

router = make_router("runs")
Cursor = Annotated[int | None, Query(ge=0, le=LARGEST_CURSOR)]
Attempt = Annotated[int | None, Query(ge=1, le=LARGEST_ATTEMPT)]
Archive = Annotated[bytes, Depends(RawBody("application/octet-stream", "application/gzip"))]


@dataclass(frozen=True)
class LogView:
    """Part of a log. `cursor` asks for what follows, also of the next try; once `complete`, nothing will."""

    entries: list[dict[str, Any]]
    cursor: int
    complete: bool


def _answers(schemas: dict[str, Any], model: Any = None) -> dict[str, Any]:
    """What a route answers that sends something else than JSON, by media type; and JSON, where it has a model."""
    said = responses(model, conflicts=True) | ({} if model is not None else {"response_class": StreamingResponse})
    said["responses"][200]["content"] = {kind: {"schema": schema} for kind, schema in schemas.items()}
    return said


_LOG = _answers({"text/event-stream": EVENT, "application/octet-stream": BYTES}, LogView)


@router.get("/runs/{run_id}/logs", name="read_run_logs", **_LOG)
async def read_logs(
    context: Context,
    run_id: str,
    cursor: Cursor = None,
    follow: bool = False,
    format: Literal["json", "raw"] = "json",
    stream: Literal["stdout", "stderr"] | None = None,
    attempt: Attempt = None,
) -> Response:
    """Read what a run wrote, from a cursor on. `follow=true` streams it as server-sent events until the run ends.

    Tries follow one another, with a line of the platform between them; of one that is said, its log alone.
    """

    def read(call: Call, cursor: int | None, most: int) -> LogPage:
        return context.services.executions.log(call, run_id, cursor, most, attempt)

    if follow and format == "raw":
        violation = Violation("format", "contradiction", "what is followed comes as events, found raw", "leave it out")
        raise RequestRejected([violation])
    if follow:
        last = context.request.headers.get("last-event-id", "")
        cursor = int(last) if last.isdecimal() and last.isascii() and len(last) < 19 else cursor
        await context.run_in_thread(read, cursor, 1)  # what is wrong is told now, not in the middle
        if is_head(context.request):
            return Response(media_type="text/event-stream")
        return streaming.send_events(streaming.follow(context, read, cursor, stream))
    page = await context.run_in_thread(read, cursor, streaming.AT_ONCE)
    if format == "raw":
        body = streaming.read_raw(context, read, cursor, stream)
        return StreamingResponse(body, media_type="application/octet-stream")
    entries = [streaming.show_entry(entry) for entry in page.entries if stream in (None, entry.stream)]
    return await context.respond(lambda _call: LogView(entries, page.cursor, page.complete))


@router.get("/runs/{run_id}/usage", name="show_run_usage", **responses(Usage, conflicts=True))
async def usage(context: Context, run_id: str, attempt: Attempt = None) -> Response:
    """Show what a run uses: the most of each resource, and samples over time."""
    return await context.respond(context.services.executions.usage, run_id, attempt)


@router.get("/runs/{run_id}/attempts", name="list_run_attempts", **responses(list[AttemptView]))
async def list_attempts(context: Context, run_id: str) -> Response:
    """List the tries of a run, the first one first; the present one is the last."""
    return await context.respond(context.services.executions.attempts, run_id)


@router.get("/runs/{run_id}/events", name="list_run_events", **responses(list[EventRecord]))
async def events(context: Context, run_id: str) -> Response:
    """List what happened to a run, the oldest first."""
    return await context.respond(context.services.executions.events, run_id)


@router.get("/runs/{run_id}/why", name="explain_run_state", **responses(Why, conflicts=True))
async def why(context: Context, run_id: str) -> Response:
    """Say why a run is where it is, with the numbers of this moment."""
    return await context.respond(context.services.explanations.why, run_id)


@router.get("/runs/{run_id}/result", name="show_run_result", **responses(Outcome, conflicts=True))
async def result(context: Context, run_id: str) -> Response:
    """Show what came of a run that has ended: what it returned, or how it failed."""
    return await context.respond(context.services.executions.outcome, run_id)


@router.get("/runs/{run_id}/files", name="list_run_files", **responses(list[OutputFile], conflicts=True))
async def files(context: Context, run_id: str, attempt: Attempt = None) -> Response:
    """List the files that a run left in its output folder."""
    return await context.respond(context.services.executions.files, run_id, attempt)


@router.get("/runs/{run_id}/files/{path:file}", name="read_run_file", **_answers({"application/octet-stream": BYTES}))
async def read_file(context: Context, run_id: str, path: str, attempt: Attempt = None) -> Response:
    """Download a file that a run left."""
    file = await context.run_in_thread(context.services.executions.open_file, run_id, path, attempt)
    name = quote(path.rpartition("/")[2], safe="")
    headers = {"Content-Disposition": f"attachment; filename*=UTF-8''{name}"}
    return StreamingResponse(_chunks(file), media_type="application/octet-stream", headers=headers)


@router.get("/runs/{run_id}/code", name="read_run_code", **_answers({"application/gzip": BYTES}))
async def read_code(context: UserOrRunContext, run_id: str) -> Response:
    """Download the packed code that a run executes. The run itself may do so too."""
    readers = context.services.run_uploads if is_run_token(context.call.bearer) else context.services.executions
    code = await context.run_in_thread(readers.code, run_id)
    headers = {"Content-Disposition": f"attachment; filename={run_id}.tar.gz"}
    return Response(code, media_type="application/gzip", headers=headers)


@router.get("/projects/{project}/code/{digest}", name="find_code", **responses(StoredCode))
async def find_code(context: Context, project: str, digest: str) -> Response:
    """Say whether code is kept already, so that it need not be sent again."""
    return await context.respond(context.services.stored_code.find, f"project/{project}", digest, quick=True)


@router.put("/projects/{project}/code/{digest}", name="put_code", **responses(StoredCode, writing=True))
async def put_code(context: Context, project: str, digest: str, archive: Archive) -> Response:
    """Keep the packed code of a function under its digest. The body is the archive itself."""
    return await context.respond(context.services.stored_code.put, f"project/{project}", digest, archive)


@router.get("/nodes", name="list_nodes", **responses(list[NodeView]))
async def nodes(context: Context, cluster: str | None = None) -> Response:
    """List where runs are executed, what is there and what is free: on every cluster that you see, or on one."""
    return await context.respond(context.services.executions.nodes, cluster)


def _chunks(file: BinaryIO) -> Iterator[bytes]:
    with file:
        while chunk := file.read(CHUNK):
            yield chunk

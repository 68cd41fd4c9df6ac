"""Routes for executions: logs, usage, attempts, events, results, files, code, nodes and URLs of served runs."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, Annotated, Any, BinaryIO, Literal
from urllib.parse import quote

from fastapi import Depends, Query, Response
from fastapi.responses import StreamingResponse

from fairlead.errors import RequestRejected
from fairlead.model.plans import Violation
from fairlead.model.records import EventRecord
from fairlead.model.runs import LogPage, OutputFile
from fairlead.run_tokens import is_run_token
from fairlead.server.http import streaming
from fairlead.server.http.middleware import is_head
from fairlead.server.http.parameters import RawBody, SpooledBody
from fairlead.server.http.request_context import Context, RunContext, UserOrRunContext
from fairlead.server.http.routing import BYTES, make_router, responses
from fairlead.server.http.streaming import send_events
from fairlead.services.runs.executions import AttemptView, NodeView, Outcome, UploadedFile, Usage
from fairlead.services.runs.fit import RunExplanation
from fairlead.services.runs.functions import StoredCode
from fairlead.services.runs.serving import OpenedUrl, ServedUrl
from fairlead.services.transactions.unit_of_work import Call

CHUNK_BYTES = 256 * 1024
MAX_CURSOR = 2**62  # a cursor also contains the attempt number, see lifecycle/attempts.py
MAX_ATTEMPT = 2**31 - 1  # PostgreSQL integers have 32 bits

# A server-sent event: a log entry with `text` or `base64`, or the end of the log.
EVENT: dict[str, Any] = {
    "type": "object",
    "required": ["id", "event", "data"],
    "properties": {
        "id": {"type": "string", "description": "Cursor of the next entry"},
        "event": {"enum": ["log", "end"]},
        "data": {"type": "string", "contentMediaType": "application/json"},
    },
}

router = make_router("runs")
Cursor = Annotated[int | None, Query(ge=0, le=MAX_CURSOR)]
Attempt = Annotated[int | None, Query(ge=1, le=MAX_ATTEMPT)]
Archive = Annotated[bytes, Depends(RawBody("application/octet-stream", "application/gzip"))]

UploadBody = Annotated[IO[bytes], Depends(SpooledBody("application/octet-stream"))]

# A server-sent event: a changed run, or the ID of a deleted one.
CHANGE_EVENT: dict[str, Any] = {
    "type": "object",
    "required": ["event", "data"],
    "properties": {
        "event": {"enum": ["ready", "run", "deleted", "reload", "error"]},
        "data": {"type": "string", "contentMediaType": "application/json"},
    },
}


@dataclass(frozen=True)
class LogView:
    """Part of a log. To read the rest, including later attempts, send `cursor` until the log is `complete`."""

    entries: list[dict[str, Any]]
    cursor: int
    complete: bool


def _binary_responses(schemas: dict[str, Any], model: Any = None) -> dict[str, Any]:
    """Keyword arguments of a route with non-JSON responses, by media type. With `model`, it can also return JSON."""
    options = responses(model, conflicts=True) | ({} if model is not None else {"response_class": StreamingResponse})
    options["responses"][200]["content"] = {kind: {"schema": schema} for kind, schema in schemas.items()}
    return options


_LOG = _binary_responses({"text/event-stream": EVENT, "application/octet-stream": BYTES}, LogView)


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
    """Read the log of a run, starting at a cursor. `follow=true` streams server-sent events until the run ends.

    The logs of all attempts follow one another, separated by a line from the platform. With `attempt`, only the log of
    that attempt is returned.
    """

    def read(call: Call, cursor: int | None, limit: int) -> LogPage:
        return context.services.executions.log(call, run_id, cursor, limit, attempt)

    if follow and format == "raw":
        violation = Violation(
            "format",
            "contradiction",
            "raw cannot be combined with follow, which returns events",
            "remove format or follow",
        )
        raise RequestRejected([violation])
    if follow:
        # When browsers reconnect, they send the last event's ID, which is more recent than the cursor in the URL.
        last = context.request.headers.get("last-event-id", "")
        cursor = int(last) if last.isdecimal() and last.isascii() and len(last) < 19 else cursor
        await context.run_in_thread(read, cursor, 1)  # errors must be found before the stream starts
        if is_head(context.request):
            return Response(media_type="text/event-stream")
        return streaming.send_events(streaming.follow_log(context, read, cursor, stream))
    # Needed for raw as well, although raw reads the page again: errors must be found before the response starts.
    page = await context.run_in_thread(read, cursor, streaming.PAGE_BYTES)
    if format == "raw":
        body = streaming.read_raw_log(context, read, cursor, stream)
        return StreamingResponse(body, media_type="application/octet-stream")
    entries = [streaming.entry_to_json(entry) for entry in page.entries if stream in (None, entry.stream)]
    return await context.respond(lambda _call: LogView(entries, page.cursor, page.complete))


@router.get("/runs/{run_id}/usage", name="show_run_usage", **responses(Usage, conflicts=True))
async def usage(context: Context, run_id: str, attempt: Attempt = None) -> Response:
    """Show the resource usage of a run: peaks, and samples over time."""
    return await context.respond(context.services.executions.usage, run_id, attempt)


@router.get("/runs/{run_id}/attempts", name="list_run_attempts", **responses(list[AttemptView]))
async def list_attempts(context: Context, run_id: str) -> Response:
    """List the attempts of a run, oldest first."""
    return await context.respond(context.services.executions.attempts, run_id)


@router.get("/runs/{run_id}/events", name="list_run_events", **responses(list[EventRecord]))
async def events(context: Context, run_id: str) -> Response:
    """List the events of a run, oldest first."""
    return await context.respond(context.services.executions.events, run_id)


@router.get("/runs/{run_id}/why", name="explain_run_state", **responses(RunExplanation, conflicts=True))
async def why(context: Context, run_id: str) -> Response:
    """Explain the state of a run, using current numbers."""
    return await context.respond(context.services.explanations.why, run_id)


@router.get("/runs/{run_id}/result", name="show_run_result", **responses(Outcome, conflicts=True))
async def result(context: Context, run_id: str) -> Response:
    """Show the result or the error of a run that has ended."""
    return await context.respond(context.services.executions.outcome, run_id)


@router.get("/runs/{run_id}/files", name="list_run_files", **responses(list[OutputFile], conflicts=True))
async def files(context: Context, run_id: str, attempt: Attempt = None) -> Response:
    """List the output files of a run."""
    return await context.respond(context.services.executions.files, run_id, attempt)


@router.get(
    "/runs/{run_id}/files/{path:file}", name="read_run_file", **_binary_responses({"application/octet-stream": BYTES})
)
async def read_file(context: Context, run_id: str, path: str, attempt: Attempt = None) -> Response:
    """Download an output file of a run."""
    file = await context.run_in_thread(context.services.executions.open_file, run_id, path, attempt)
    name = quote(path.rpartition("/")[2], safe="")
    # Sent as a download, because a page from a run must not execute scripts in the web UI's origin. Percent-encoding
    # keeps a file name from adding headers.
    headers = {"Content-Disposition": f"attachment; filename*=UTF-8''{name}"}
    return StreamingResponse(_chunks(file), media_type="application/octet-stream", headers=headers)


@router.get("/runs/{run_id}/code", name="read_run_code", **_binary_responses({"application/gzip": BYTES}))
async def read_code(context: UserOrRunContext, run_id: str) -> Response:
    """Download the packed code of a run. The run itself may do so with its run token."""
    readers = context.services.run_uploads if is_run_token(context.call.bearer) else context.services.executions
    code = await context.run_in_thread(readers.code, run_id)
    headers = {"Content-Disposition": f"attachment; filename={run_id}.tar.gz"}
    return Response(code, media_type="application/gzip", headers=headers)


@router.get("/projects/{project}/code/{digest}", name="find_code", **responses(StoredCode))
async def find_code(context: Context, project: str, digest: str) -> Response:
    """Check whether code is already stored, so that it need not be uploaded again."""
    return await context.respond(context.services.stored_code.find, f"project/{project}", digest, quick=True)


@router.put("/projects/{project}/code/{digest}", name="put_code", **responses(StoredCode, writing=True))
async def put_code(context: Context, project: str, digest: str, archive: Archive) -> Response:
    """Upload the packed code of a function under its digest. The body is the archive."""
    return await context.respond(context.services.stored_code.put, f"project/{project}", digest, archive)


@router.get("/nodes", name="list_nodes", **responses(list[NodeView]))
async def list_nodes(context: Context, cluster: str | None = None) -> Response:
    """List the nodes of all clusters that you can view, or of one cluster, with total and free resources."""
    return await context.respond(context.services.executions.nodes, cluster)


def _chunks(file: BinaryIO) -> Iterator[bytes]:
    with file:
        while chunk := file.read(CHUNK_BYTES):
            yield chunk


@router.put("/runs/{run_id}/uploads/{path:file}", name="upload_run_file", **responses(UploadedFile, writing=True))
async def upload_file(context: RunContext, run_id: str, path: str, file: UploadBody) -> Response:
    """Upload a file of a run: `result.json`, `error.json` or an output file. Only the run itself may do so."""
    return await context.respond(context.services.run_uploads.put, run_id, path, file)


@router.get("/runs/{run_id}/url", name="show_run_url", **responses(ServedUrl, conflicts=True))
async def show_url(context: Context, run_id: str) -> Response:
    """Show the URL at which programs can call a run, whether browsers can open it, and whether the run is ready."""
    return await context.respond(context.services.serving.describe_url, run_id, context.request.app.state.hosts)


@router.post("/runs/{run_id}/open", name="open_run", **responses(OpenedUrl, writing=True))
async def open_run(context: Context, run_id: str) -> Response:
    """Create a URL that signs a browser in to a run as you, once and within a minute.

    If you send a session cookie instead of a token, only this browser can use the URL.
    """
    request, serving = context.request, context.services.serving
    if "authorization" in request.headers:
        return await context.respond(serving.open, run_id, request.app.state.hosts)
    return await context.respond(serving.begin, run_id, request.app.state.hosts, request.url.hostname or "")


_STREAM = responses(None) | {"response_class": StreamingResponse}
_STREAM["responses"][200]["content"] = {"text/event-stream": {"schema": CHANGE_EVENT}}


@router.get("/events", name="watch_events", **_STREAM)
async def watch_events(context: Context, project: str | None = None) -> Response:
    """Stream changes to runs as server-sent events: `run` with the changed run, `deleted` with the ID of a deleted one.

    The first event is `ready`: no changes after it are missed. `reload` means that too much has changed: read the lists
    again. The stream ends after five minutes; then reconnect.
    """
    scope = None if project is None else f"project/{project}"
    # Errors must be found before the stream starts.
    start = await context.run_in_thread(context.services.run_feed.begin, scope)
    # A HEAD request must not wait for events.
    seconds: float = 0.0 if is_head(context.request) else context.request.app.state.stream_seconds
    return send_events(streaming.stream_run_changes(context, scope, start, seconds))

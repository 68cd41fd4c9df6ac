"""Streaming responses: logs as server-sent events or raw bytes."""

import asyncio
import base64
from collections.abc import AsyncIterator, Callable
from typing import Any

import msgspec
from fastapi.responses import StreamingResponse

from fairlead.errors import FairleadError
from fairlead.model.runs import LogEntry, LogPage
from fairlead.server.request_context import RequestContext
from fairlead.services.transactions.unit_of_work import Call

PAGE_BYTES = 256 * 1024  # of a log, held in memory per reader
POLL_SECONDS = 0.1
HEARTBEAT_SECONDS = 15.0

ReadPage = Callable[[Call, int | None, int], LogPage]  # arguments: call, cursor, maximum number of bytes


def entry_to_json(entry: LogEntry) -> dict[str, Any]:
    """A log entry as JSON: `text`, or `base64` if the bytes are not valid UTF-8."""
    data: dict[str, Any] = {"at": entry.at, "stream": entry.stream, "cursor": entry.end}
    try:
        return data | {"text": entry.data.decode("utf-8")}
    except UnicodeDecodeError:
        return data | {"base64": base64.b64encode(entry.data).decode("ascii")}


async def follow(
    context: RequestContext, read: ReadPage, cursor: int | None, stream: str | None
) -> AsyncIterator[bytes]:
    """Log entries starting at a cursor, as server-sent events, until the log is complete."""
    silent = 0.0
    while not context.request.app.state.is_shutting_down():
        try:
            page: LogPage = await context.run_in_thread(read, cursor, PAGE_BYTES)
        except FairleadError as error:  # the response has started, so errors are sent as an event
            yield write_event("error", {"code": error.code, "detail": str(error)}, cursor)
            return
        for entry in page.entries:
            if stream in (None, entry.stream):
                yield write_event("log", entry_to_json(entry), entry.end)
        cursor = page.cursor
        if page.complete:
            yield write_event("end", {}, cursor)
            return
        silent = 0.0 if page.entries else silent + POLL_SECONDS
        if silent >= HEARTBEAT_SECONDS:
            silent = 0.0
            yield b": heartbeat\n\n"  # keeps proxies from closing an idle connection
        if not page.entries:
            # Other processes write the log and do not notify the server, so it is polled.
            await asyncio.sleep(POLL_SECONDS)


async def read_raw(
    context: RequestContext, read: ReadPage, cursor: int | None, stream: str | None
) -> AsyncIterator[bytes]:
    """The raw bytes of a log starting at a cursor, as far as it has been written."""
    while True:
        page: LogPage = await context.run_in_thread(read, cursor, PAGE_BYTES)
        for entry in page.entries:
            if stream is None or entry.stream == stream:
                yield entry.data
        if page.complete or not page.entries:
            return
        cursor = page.cursor


def write_event(name: str, data: Any, cursor: int | None = None) -> bytes:
    """Encode a server-sent event. The cursor becomes its ID, from which a client can resume."""
    event = b"event: %s\ndata: %s\n\n" % (name.encode(), msgspec.json.encode(data))
    return event if cursor is None else b"id: %d\n%s" % (cursor, event)


def send_events(events: AsyncIterator[bytes]) -> StreamingResponse:
    """A response with server-sent events that proxies do not buffer."""
    return StreamingResponse(events, media_type="text/event-stream", headers={"X-Accel-Buffering": "no"})

"""Streams: logs as JSON, as the bytes themselves, or as events that come while the run runs; and events as such."""

import asyncio
import base64
from collections.abc import AsyncIterator, Callable
from typing import Any

import msgspec
from fastapi.responses import StreamingResponse

from fairlead.errors import FairleadError
from fairlead.model.observations import LogEntry, LogPage
from fairlead.server.request_context import RequestContext
from fairlead.services.calls import Call

AT_ONCE = 256 * 1024
POLL_SECONDS = 0.1
BEAT_SECONDS = 15.0

Read = Callable[[Call, int | None, int], LogPage]  # part of a log, from a cursor on, up to so many bytes


def show_entry(entry: LogEntry) -> dict[str, Any]:
    """An entry as JSON: its text, or its bytes in base64 where they are none."""
    shown: dict[str, Any] = {"at": entry.at, "stream": entry.stream, "cursor": entry.end}
    try:
        return shown | {"text": entry.data.decode("utf-8")}
    except UnicodeDecodeError:
        return shown | {"base64": base64.b64encode(entry.data).decode("ascii")}


async def follow(context: RequestContext, read: Read, cursor: int | None, stream: str | None) -> AsyncIterator[bytes]:
    """Every entry from a cursor on as a server-sent event, until the log is complete and all of it was sent."""
    silent = 0.0
    while not context.request.app.state.is_shutting_down():
        try:
            page: LogPage = await context.run_in_thread(read, cursor, AT_ONCE)
        except FairleadError as error:  # the answer has begun: what goes wrong now is told in it
            yield write_event("error", {"code": error.code, "detail": str(error)}, cursor)
            return
        for entry in page.entries:
            if stream in (None, entry.stream):
                yield write_event("log", show_entry(entry), entry.end)
        cursor = page.cursor
        if page.complete:
            yield write_event("end", {}, cursor)
            return
        silent = 0.0 if page.entries else silent + POLL_SECONDS
        if silent >= BEAT_SECONDS:
            silent = 0.0
            yield b": still there\n\n"  # or whoever stands between would think that nobody is
        if not page.entries:
            await asyncio.sleep(POLL_SECONDS)


async def read_raw(context: RequestContext, read: Read, cursor: int | None, stream: str | None) -> AsyncIterator[bytes]:
    """What the run wrote so far, byte by byte."""
    while True:
        page: LogPage = await context.run_in_thread(read, cursor, AT_ONCE)
        for entry in page.entries:
            if stream is None or entry.stream == stream:
                yield entry.data
        if page.complete or not page.entries:
            return
        cursor = page.cursor


def write_event(name: str, data: Any, cursor: int | None = None) -> bytes:
    """A server-sent event; who comes back with its cursor goes on after it."""
    told = b"event: %s\ndata: %s\n\n" % (name.encode(), msgspec.json.encode(data))
    return told if cursor is None else b"id: %d\n%s" % (cursor, told)


def send_events(events: AsyncIterator[bytes]) -> StreamingResponse:
    """Events as an answer, which no proxy is to hold back until there are more."""
    return StreamingResponse(events, media_type="text/event-stream", headers={"X-Accel-Buffering": "no"})

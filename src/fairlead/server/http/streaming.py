"""Streams logs and changes to runs, as server-sent events or raw bytes."""

import asyncio
import base64
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import msgspec
from fastapi.responses import StreamingResponse

from fairlead.errors import FairleadError
from fairlead.model.records import RunRecord
from fairlead.model.runs import LogEntry, LogPage
from fairlead.run_events import RECORD_EVENTS, RunEvents
from fairlead.server.http.request_context import RequestContext
from fairlead.services.runs.executions import RunChanges
from fairlead.services.transactions.unit_of_work import Call

PAGE_BYTES = 256 * 1024  # of a log, held in memory per reader
LOG_POLL_SECONDS = 0.1
HEARTBEAT_SECONDS = 15.0

ReadPage = Callable[[Call, int | None, int], LogPage]  # arguments: call, cursor, maximum number of bytes

POLL_SECONDS = 2.0  # changes made by other servers are found by polling
GATHER_SECONDS = 0.1  # changes within this time are sent together
SHUTDOWN_CHECK_SECONDS = 0.5  # on shutdown, the server waits for its streams to end


class Subscription(asyncio.Event):
    """Collects the IDs of changed runs until they are taken. Each change sets the event."""

    def __init__(self) -> None:
        super().__init__()
        self._loop = asyncio.get_running_loop()
        self._run_ids: set[str] = set()

    def add(self, run_id: str) -> None:
        """Add a changed run. May be called from any thread."""
        with contextlib.suppress(RuntimeError):  # the loop has just been closed
            self._loop.call_soon_threadsafe(self._add, run_id)

    def take(self) -> list[str]:
        """IDs of the runs that have changed since the last call."""
        run_ids, self._run_ids = sorted(self._run_ids), set()
        return run_ids

    def _add(self, run_id: str) -> None:
        self._run_ids.add(run_id)
        self.set()


@contextlib.contextmanager
def subscribe(run_events: RunEvents, run_id: str | None = None) -> Iterator[Subscription]:
    """Subscribe to changes to one run, or to all runs.

    Subscribe before reading a run, so that no change after the read is missed.
    """
    subscription = Subscription()
    unsubscribe = run_events.subscribe(subscription.add, *RECORD_EVENTS, run_id=run_id)
    try:
        yield subscription
    finally:
        unsubscribe()


async def wait_for_change(subscription: asyncio.Event, seconds: float) -> None:
    """Wait until the event is set, for at most `seconds`, and clear it."""
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(subscription.wait(), seconds)
    # The caller reads after this, so a change during the read ends the next wait immediately.
    subscription.clear()


def entry_to_json(entry: LogEntry) -> dict[str, Any]:
    """A log entry as JSON: `text`, or `base64` if the bytes are not valid UTF-8."""
    data: dict[str, Any] = {"at": entry.at, "stream": entry.stream, "cursor": entry.end}
    try:
        return data | {"text": entry.data.decode("utf-8")}
    except UnicodeDecodeError:
        return data | {"base64": base64.b64encode(entry.data).decode("ascii")}


async def follow_log(
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
        silent = 0.0 if page.entries else silent + LOG_POLL_SECONDS
        if silent >= HEARTBEAT_SECONDS:
            silent = 0.0
            yield b": heartbeat\n\n"  # keeps proxies from closing an idle connection
        if not page.entries:
            # Other processes write the log and do not notify the server, so it is polled.
            await asyncio.sleep(LOG_POLL_SECONDS)


async def read_raw_log(
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


async def stream_run_changes(
    context: RequestContext, scope: str | None, start: RunChanges, seconds: float
) -> AsyncIterator[bytes]:
    """Events for changes to runs that the caller may view, from now on and for at most `seconds`."""
    feed, sent = context.services.run_feed, _SentEvents()
    with subscribe(context.services.run_events) as subscription:
        # Sent after subscribing: the client reads its lists after this event, so they include all earlier changes.
        yield write_event("ready", {})
        until, polled_at, changed_since, sent_at = (
            time.monotonic() + seconds,
            time.monotonic(),
            start.at,
            time.monotonic(),
        )
        while (left := until - time.monotonic()) > 0 and not context.request.app.state.is_shutting_down():
            await wait_for_change(subscription, min(left, SHUTDOWN_CHECK_SECONDS))
            await asyncio.sleep(GATHER_SECONDS)
            events: list[bytes] = []
            try:
                # Reads with the caller's current permissions, so that a revoked role or session ends the stream.
                if run_ids := subscription.take():
                    events += sent.add_runs(await context.run_in_thread(feed.load_runs, scope, run_ids))
                if time.monotonic() - polled_at >= POLL_SECONDS:
                    changes: RunChanges = await context.run_in_thread(feed.poll, scope, changed_since)
                    changed_since, polled_at = changes.at, time.monotonic()
                    events += sent.add_changes(changes)
            except FairleadError as error:  # the response has started, so errors are sent as an event
                yield write_event("error", {"code": error.code, "detail": str(error)})
                return
            if not events and time.monotonic() - sent_at >= HEARTBEAT_SECONDS:
                events = [b": heartbeat\n\n"]  # keeps proxies from closing an idle connection
            if events:
                sent_at = time.monotonic()
                yield b"".join(events)


class _SentEvents:
    """Remembers which events a stream has sent, so that none is sent twice."""

    def __init__(self) -> None:
        # A change by this server is seen twice: in its notification and in the next poll.
        self._revisions: dict[str, int] = {}
        self._deleted: set[str] = set()

    def add_runs(self, runs: list[RunRecord]) -> list[bytes]:
        """Events for runs with a new revision."""
        changed = [run for run in runs if self._revisions.get(run.id, 0) < run.revision]
        self._revisions |= {run.id: run.revision for run in changed}
        return [write_event("run", run) for run in changed]

    def add_changes(self, changes: RunChanges) -> list[bytes]:
        """Events for the changed and deleted runs that a poll found."""
        if changes.reload:
            return [write_event("reload", {})]
        events = self.add_runs(changes.runs)
        # Later polls do not return the runs that are missing here, unless they change again, so those can be forgotten.
        self._revisions = {run.id: self._revisions[run.id] for run in changes.runs}
        # Polls overlap by a few seconds, so several of them return the same deletion.
        deleted = [run_id for run_id in changes.deleted if run_id not in self._deleted]
        self._deleted = set(changes.deleted)
        return [*events, *(write_event("deleted", {"id": run_id}) for run_id in deleted)]

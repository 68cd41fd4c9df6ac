"""Streams changes to runs as server-sent events."""

import asyncio
import time
from collections.abc import AsyncIterator

from fairlead.errors import FairleadError
from fairlead.model.records import RunRecord
from fairlead.server.request_context import RequestContext
from fairlead.server.run_events import RunEvents, wait_for_change
from fairlead.server.streaming import write_event
from fairlead.services.runs.executions import RunChanges

POLL_SECONDS = 2.0  # changes made by other servers are found by polling
GATHER_SECONDS = 0.1  # changes within this time are sent together
HEARTBEAT_SECONDS = 15.0  # many proxies close connections that are idle for 30 to 60 seconds
SHUTDOWN_CHECK_SECONDS = 0.5  # on shutdown, the server waits for its streams to end


async def stream_run_changes(
    context: RequestContext, scope: str | None, start: RunChanges, seconds: float
) -> AsyncIterator[bytes]:
    """Events for changes to runs that the caller may view, from now on and for at most `seconds`."""
    run_events: RunEvents = context.request.app.state.run_events
    feed, sent = context.services.run_feed, _SentEvents()
    with run_events.subscribe() as subscription:
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

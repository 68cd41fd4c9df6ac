"""What changes, as server-sent events: each run as it is now, until the stream has lasted long enough."""

import asyncio
import time
from collections.abc import AsyncIterator

from fairlead.errors import FairleadError
from fairlead.model.records import RunRecord
from fairlead.server.request_context import RequestContext
from fairlead.server.run_events import RunEvents, wait
from fairlead.server.streaming import write_event
from fairlead.services.run_feed import RunChanges

POLL_SECONDS = 2.0  # another server may have changed something, and nobody here heard of it
GATHER_SECONDS = 0.1  # what changes within a moment is told together
BEAT_SECONDS = 15.0
NOTICE_SECONDS = 0.5  # until it is seen that the server ends, which waits for its streams


async def feed(context: RequestContext, scope: str | None, begun: RunChanges, seconds: float) -> AsyncIterator[bytes]:
    """What changes from now on, as the caller sees it."""
    run_events: RunEvents = context.request.app.state.run_events
    feeds, told = context.services.run_feed, _Told()
    with run_events.subscribe() as heard:
        yield write_event("ready", {})
        until, looked_at, at, spoke_at = time.monotonic() + seconds, time.monotonic(), begun.at, time.monotonic()
        while (left := until - time.monotonic()) > 0 and not context.request.app.state.is_shutting_down():
            await wait(heard, min(left, NOTICE_SECONDS))
            await asyncio.sleep(GATHER_SECONDS)
            news: list[bytes] = []
            try:
                if run_ids := heard.take():
                    news += told.tell(await context.run_in_thread(feeds.load, scope, run_ids))
                if time.monotonic() - looked_at >= POLL_SECONDS:
                    seen: RunChanges = await context.run_in_thread(feeds.look, scope, at)
                    at, looked_at = seen.at, time.monotonic()
                    news += told.describe_all(seen)
            except FairleadError as error:  # the answer has begun: what goes wrong now is told in it
                yield write_event("error", {"code": error.code, "detail": str(error)})
                return
            if not news and time.monotonic() - spoke_at >= BEAT_SECONDS:
                news = [b": still there\n\n"]  # or whoever stands between would think that nobody is
            if news:
                spoke_at = time.monotonic()
                yield b"".join(news)


class _Told:
    """What was told already, so that nothing is told twice."""

    def __init__(self) -> None:
        self._revisions: dict[str, int] = {}
        self._gone: set[str] = set()

    def tell(self, runs: list[RunRecord]) -> list[bytes]:
        """The runs that are other than they were told."""
        news = [run for run in runs if self._revisions.get(run.id, 0) < run.revision]
        self._revisions |= {run.id: run.revision for run in news}
        return [write_event("run", run) for run in news]

    def describe_all(self, seen: RunChanges) -> list[bytes]:
        """The same, and what is gone. What a look no longer finds will not be found by the next one either."""
        if seen.many:
            return [write_event("many", {})]
        news = self.tell(seen.runs)
        self._revisions = {run.id: self._revisions[run.id] for run in seen.runs}
        fresh = [run_id for run_id in seen.gone if run_id not in self._gone]
        self._gone = set(seen.gone)
        return [*news, *(write_event("gone", {"id": run_id}) for run_id in fresh)]

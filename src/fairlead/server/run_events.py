"""Who waits for runs to change is told when they do."""

import asyncio
import contextlib
from collections.abc import Iterator


class Subscription(asyncio.Event):
    """Set with each change; with the runs that changed since they were last taken."""

    def __init__(self) -> None:
        super().__init__()
        self._runs: set[str] = set()

    def hear(self, run_id: str) -> None:
        """Note that a run changed."""
        self._runs.add(run_id)
        self.set()

    def take(self) -> list[str]:
        """The runs that changed since this was asked before."""
        taken, self._runs = sorted(self._runs), set()
        return taken


class RunEvents:
    """Passes on, from whichever thread, that something changed about a run."""

    def __init__(self) -> None:
        self._waiting: dict[str | None, list[Subscription]] = {}
        self._loop: asyncio.AbstractEventLoop | None = None

    def tell(self, run_id: str) -> None:
        """Wake all that wait for a run, or for any."""
        if not self._waiting.keys().isdisjoint((run_id, None)) and self._loop and not self._loop.is_closed():
            with contextlib.suppress(RuntimeError):  # it has closed since: nobody waits any more
                self._loop.call_soon_threadsafe(self._wake, run_id)

    @contextlib.contextmanager
    def subscribe(self, run_id: str | None = None) -> Iterator[Subscription]:
        """What is set with each change of a run, or of any, from now on: what is read after this is never out of date
        unnoticed."""
        self._loop = asyncio.get_running_loop()
        heard = Subscription()
        self._waiting.setdefault(run_id, []).append(heard)
        try:
            yield heard
        finally:
            self._waiting[run_id].remove(heard)
            if not self._waiting[run_id]:
                del self._waiting[run_id]

    def _wake(self, run_id: str) -> None:
        for heard in (*self._waiting.get(run_id, ()), *self._waiting.get(None, ())):
            heard.hear(run_id)


async def wait(heard: asyncio.Event, seconds: float) -> None:
    """Until the event is set, or so many seconds have passed."""
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(heard.wait(), seconds)
    heard.clear()

"""Who waits for a run to change is told when it does."""

import asyncio
import contextlib
from collections.abc import Iterator


class Changes:
    """Passes on, from whichever thread, that something changed about a run."""

    def __init__(self) -> None:
        self._waiting: dict[str, list[asyncio.Event]] = {}
        self._loop: asyncio.AbstractEventLoop | None = None

    def tell(self, run_id: str) -> None:
        """Wake all that wait for a run."""
        if run_id in self._waiting and self._loop is not None and not self._loop.is_closed():
            with contextlib.suppress(RuntimeError):  # it has closed since: nobody waits any more
                self._loop.call_soon_threadsafe(self._wake, run_id)

    @contextlib.contextmanager
    def listening(self, run_id: str) -> Iterator[asyncio.Event]:
        """An event that is set with each change from now on: what is read after this is not out of date unnoticed."""
        self._loop = asyncio.get_running_loop()
        heard = asyncio.Event()
        self._waiting.setdefault(run_id, []).append(heard)
        try:
            yield heard
        finally:
            self._waiting[run_id].remove(heard)
            if not self._waiting[run_id]:
                del self._waiting[run_id]

    def _wake(self, run_id: str) -> None:
        for heard in self._waiting.get(run_id, ()):
            heard.set()


async def wait(heard: asyncio.Event, seconds: float) -> None:
    """Until the event is set, or so many seconds have passed."""
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(heard.wait(), seconds)
    heard.clear()

"""The server's internal event bus for changes to runs."""

import asyncio
import contextlib
from collections.abc import Iterator


class Subscription(asyncio.Event):
    """Collects the IDs of changed runs until they are taken. Each change sets the event."""

    def __init__(self) -> None:
        super().__init__()
        self._run_ids: set[str] = set()

    def notify(self, run_id: str) -> None:
        """Add a changed run. Must be called on the event loop."""
        self._run_ids.add(run_id)
        self.set()

    def take(self) -> list[str]:
        """IDs of the runs that have changed since the last call."""
        run_ids, self._run_ids = sorted(self._run_ids), set()
        return run_ids


class RunEvents:
    """Notifies subscribers when a run changes. `publish` may be called from any thread."""

    def __init__(self) -> None:
        self._subscriptions: dict[str | None, list[Subscription]] = {}
        self._loop: asyncio.AbstractEventLoop | None = None

    def publish(self, run_id: str) -> None:
        """Notify the subscribers to this run and the subscribers to all runs."""
        # Most changes have no subscribers, so they need not interrupt the event loop.
        if not self._subscriptions.keys().isdisjoint((run_id, None)) and self._loop and not self._loop.is_closed():
            with contextlib.suppress(RuntimeError):  # the loop has just been closed, so there are no subscribers
                self._loop.call_soon_threadsafe(self._notify, run_id)

    @contextlib.contextmanager
    def subscribe(self, run_id: str | None = None) -> Iterator[Subscription]:
        """Subscribe to changes to one run, or to all runs.

        Subscribe before reading a run, so that no change after the read is missed.
        """
        self._loop = asyncio.get_running_loop()
        subscription = Subscription()
        self._subscriptions.setdefault(run_id, []).append(subscription)
        try:
            yield subscription
        finally:
            self._subscriptions[run_id].remove(subscription)
            if not self._subscriptions[run_id]:
                del self._subscriptions[run_id]

    def _notify(self, run_id: str) -> None:
        for subscription in (*self._subscriptions.get(run_id, ()), *self._subscriptions.get(None, ())):
            subscription.notify(run_id)


async def wait_for_change(subscription: asyncio.Event, seconds: float) -> None:
    """Wait until the event is set, for at most `seconds`, and clear it."""
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(subscription.wait(), seconds)
    # The caller reads after this, so a change during the read ends the next wait immediately.
    subscription.clear()

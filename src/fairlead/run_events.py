"""Event bus between use cases, executors, the run controller and HTTP streams."""

import threading
from collections.abc import Callable
from enum import Enum, auto

Callback = Callable[[str], None]  # called with a run ID, in the publisher's thread


class RunEvent(Enum):
    """Kinds of events of a run."""

    CHANGED = auto()  # its record changed, and the controller has not seen the change
    SAVED = auto()  # the controller changed its record, so only clients must read it again
    OBSERVED = auto()  # its executor has news, so the controller must observe it


RECORD_EVENTS = (RunEvent.CHANGED, RunEvent.SAVED)
CONTROLLER_EVENTS = (RunEvent.CHANGED, RunEvent.OBSERVED)


class RunEvents:
    """Calls subscribers when something happens to a run. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._callbacks: dict[tuple[RunEvent, str | None], list[Callback]] = {}

    def publish(self, event: RunEvent, run_id: str) -> None:
        """Call the subscribers to this run and the subscribers to all runs. Publish a change after its commit."""
        with self._lock:
            callbacks = [*self._callbacks.get((event, run_id), ()), *self._callbacks.get((event, None), ())]
        for callback in callbacks:
            callback(run_id)

    def subscribe(self, callback: Callback, *events: RunEvent, run_id: str | None = None) -> Callable[[], None]:
        """Subscribe to events of one run, or of all runs. Returns a function that ends the subscription."""
        keys = [(event, run_id) for event in events]
        with self._lock:
            for key in keys:
                self._callbacks.setdefault(key, []).append(callback)

        def unsubscribe() -> None:
            with self._lock:
                for key in keys:
                    self._callbacks[key].remove(callback)
                    if not self._callbacks[key]:
                        del self._callbacks[key]

        return unsubscribe

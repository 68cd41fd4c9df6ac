"""Looks after many runs at the same time: what a cluster is asked for takes its time."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

MOST_AT_ONCE = 4


class WorkQueue:
    """Does one thing to each of many runs. Of one run, never twice at once: what is said meanwhile is done after."""

    def __init__(self, do: Callable[[str], None]) -> None:
        self._do = do
        self._pool = ThreadPoolExecutor(MOST_AT_ONCE, thread_name_prefix="runs")
        self._lock = threading.Lock()
        self._busy: set[str] = set()
        self._again: set[str] = set()

    def take(self, run_id: str) -> None:
        """See to a run, soon."""
        with self._lock:
            if run_id in self._busy:
                self._again.add(run_id)
                return
            self._busy.add(run_id)
        self._pool.submit(self._see_to, run_id)

    def end(self, *, wait: bool = True) -> None:
        """Finish what was begun, and begin nothing more."""
        self._pool.shutdown(wait=wait, cancel_futures=True)

    def _see_to(self, run_id: str) -> None:
        while True:
            self._do(run_id)
            with self._lock:
                if run_id not in self._again:
                    self._busy.discard(run_id)
                    return
                self._again.discard(run_id)

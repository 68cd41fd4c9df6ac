"""Keyed work queue that reconciles runs in parallel and logs failures."""

import contextlib
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import structlog

from fairlead.errors import FairleadError, Unavailable

log = structlog.get_logger()

WORKERS = 4  # per cluster; they mostly wait for responses from its API server

Process = Callable[[str], None]


@contextlib.contextmanager
def log_failures(name: str, *expected: type[Exception]) -> Iterator[list[Exception]]:
    """Log a failure of the block and continue. Yields a list to which the failure is added.

    Unexpected exceptions, which are neither a `FairleadError` nor in `expected`, are logged with a traceback.
    """
    failures: list[Exception] = []
    try:
        yield failures
    except Exception as error:
        failures.append(error)
        # A temporary failure, for example an unreachable cluster. Steps are retried, so this is not a server error.
        if isinstance(error, Unavailable):
            log.info(f"{name} failed", problem=str(error))
        else:
            known = isinstance(error, (FairleadError, *expected))
            log.error(f"{name} failed", problem=str(error), exc_info=None if known else error)


class WorkQueue:
    """Processes run IDs with a pool of workers, never the same ID twice at the same time.

    An ID that is added while it is being processed is processed once more afterward. `on_failure` is called with each
    ID whose processing raised an exception.
    """

    def __init__(self, process: Process, on_failure: Process = lambda _: None) -> None:
        self._process, self._on_failure = process, on_failure
        self._pool = ThreadPoolExecutor(WORKERS, thread_name_prefix="runs")
        self._lock = threading.Lock()
        self._active: set[str] = set()  # queued or in progress
        self._again: set[str] = set()  # added again while active

    def add(self, run_id: str) -> None:
        """Queue a run ID."""
        with self._lock:
            if run_id in self._active:
                self._again.add(run_id)
                return
            self._active.add(run_id)
        self._pool.submit(self._work, run_id)

    def shut_down(self, *, wait: bool = True) -> None:
        """Finish the IDs in progress and drop the queued ones."""
        self._pool.shutdown(wait=wait, cancel_futures=True)

    def _work(self, run_id: str) -> None:
        while True:
            with log_failures(f"reconciling run {run_id}") as failures:
                self._process(run_id)
            if failures:
                self._on_failure(run_id)
            with self._lock:
                # Checked and removed under one lock, so an ID added now is either repeated here or queued again.
                if run_id not in self._again:
                    self._active.discard(run_id)
                    return
                self._again.discard(run_id)

"""The run work queue: different runs in parallel, and a run never twice at the same time."""

import threading
from collections.abc import Callable, Iterator

import pytest

from fairlead.controllers import work_queue
from fairlead.controllers.work_queue import WorkQueue
from tests.databases import wait_until

MakeQueue = Callable[[Callable[[str], None]], WorkQueue]


@pytest.fixture
def make_queue() -> Iterator[MakeQueue]:
    """Creates work queues that are shut down after the test."""
    queues: list[WorkQueue] = []

    def create(process: Callable[[str], None]) -> WorkQueue:
        queues.append(WorkQueue(process))
        return queues[-1]

    yield create
    for queue in queues:
        queue.shut_down()


class ControlledWorker:
    """A worker function that finishes each call when the test releases it."""

    def __init__(self) -> None:
        self.started: list[str] = []
        self.done: list[str] = []
        self.permits = threading.Semaphore(0)

    def __call__(self, run_id: str) -> None:
        self.started.append(run_id)
        assert self.permits.acquire(timeout=10)
        self.done.append(run_id)


def test_slow_run_does_not_block_others(make_queue: MakeQueue) -> None:
    worker = ControlledWorker()
    queue = make_queue(worker)
    for run_id in "abc":
        queue.add(run_id)
    wait_until(lambda: sorted(worker.started) == ["a", "b", "c"])
    assert worker.done == []
    worker.permits.release(3)
    wait_until(lambda: len(worker.done) == 3)


def test_run_is_never_processed_concurrently_and_is_repeated_after_a_new_notification(make_queue: MakeQueue) -> None:
    worker = ControlledWorker()
    queue = make_queue(worker)
    queue.add("a")
    wait_until(lambda: worker.started == ["a"])
    for _ in range(5):
        queue.add("a")
    assert worker.started == ["a"]
    worker.permits.release()
    wait_until(lambda: worker.started == ["a", "a"])  # one call for all notifications
    worker.permits.release()
    wait_until(lambda: worker.done == ["a", "a"])
    queue.add("a")
    wait_until(lambda: worker.started == ["a", "a", "a"])
    worker.permits.release()


def test_concurrency_is_limited_to_the_number_of_workers(
    make_queue: MakeQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(work_queue, "WORKERS", 2)
    worker = ControlledWorker()
    queue = make_queue(worker)
    for run_id in "abcd":
        queue.add(run_id)
    wait_until(lambda: len(worker.started) == 2)
    worker.permits.release()
    wait_until(lambda: len(worker.started) == 3)
    worker.permits.release(3)
    wait_until(lambda: len(worker.done) == 4)


def test_close_finishes_started_work_and_starts_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work_queue, "WORKERS", 1)
    worker = ControlledWorker()
    queue = WorkQueue(worker)
    for run_id in "abc":
        queue.add(run_id)
    wait_until(lambda: worker.started == ["a"])
    shutdown_thread = threading.Thread(target=queue.shut_down)
    shutdown_thread.start()
    wait_until(lambda: queue._pool._shutdown)
    assert shutdown_thread.is_alive()
    worker.permits.release()
    shutdown_thread.join(10)
    assert (worker.started, worker.done) == (["a"], ["a"])

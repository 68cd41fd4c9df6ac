"""The work queue of runs: different runs in parallel, one run never twice at the same time."""

import threading
from collections.abc import Callable, Iterator

import pytest

from fairlead.controllers import work_queue
from fairlead.controllers.work_queue import WorkQueue
from tests.databases import wait_until

Make = Callable[[Callable[[str], None]], WorkQueue]


@pytest.fixture
def make_queue() -> Iterator[Make]:
    """Makes work queues that are shut down after the test."""
    made: list[WorkQueue] = []

    def make(do: Callable[[str], None]) -> WorkQueue:
        made.append(WorkQueue(do))
        return made[-1]

    yield make
    for each in made:
        each.shut_down()


class Work:
    """A worker function whose duration a test controls."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.done: list[str] = []
        self.go = threading.Semaphore(0)

    def __call__(self, run_id: str) -> None:
        self.begun.append(run_id)
        assert self.go.acquire(timeout=10)
        self.done.append(run_id)


def test_slow_run_does_not_block_others(make_queue: Make) -> None:
    work = Work()
    queue = make_queue(work)
    for run_id in "abc":
        queue.add(run_id)
    wait_until(lambda: sorted(work.begun) == ["a", "b", "c"])
    assert work.done == []
    work.go.release(3)
    wait_until(lambda: len(work.done) == 3)


def test_run_is_never_processed_concurrently_and_is_repeated_after_a_new_notification(make_queue: Make) -> None:
    work = Work()
    queue = make_queue(work)
    queue.add("a")
    wait_until(lambda: work.begun == ["a"])
    for _ in range(5):
        queue.add("a")
    assert work.begun == ["a"]
    work.go.release()
    wait_until(lambda: work.begun == ["a", "a"])  # once for all notifications
    work.go.release()
    wait_until(lambda: work.done == ["a", "a"])
    queue.add("a")
    wait_until(lambda: work.begun == ["a", "a", "a"])
    work.go.release()


def test_concurrency_is_limited_to_the_number_of_workers(make_queue: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work_queue, "WORKERS", 2)
    work = Work()
    queue = make_queue(work)
    for run_id in "abcd":
        queue.add(run_id)
    wait_until(lambda: len(work.begun) == 2)
    work.go.release()
    wait_until(lambda: len(work.begun) == 3)
    work.go.release(3)
    wait_until(lambda: len(work.done) == 4)


def test_close_finishes_started_work_and_starts_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work_queue, "WORKERS", 1)
    work = Work()
    queue = WorkQueue(work)
    for run_id in "abc":
        queue.add(run_id)
    wait_until(lambda: work.begun == ["a"])
    ending = threading.Thread(target=queue.shut_down)
    ending.start()
    wait_until(lambda: queue._pool._shutdown)
    assert ending.is_alive()
    work.go.release()
    ending.join(10)
    assert (work.begun, work.done) == (["a"], ["a"])

"""Many runs are looked after at the same time, each of them by one at a time."""

import threading
from collections.abc import Callable, Iterator

import pytest

from fairlead.controllers import work_queue
from fairlead.controllers.work_queue import WorkQueue
from tests.databases import wait_until

Make = Callable[[Callable[[str], None]], WorkQueue]


@pytest.fixture
def make_hands() -> Iterator[Make]:
    """Makes hands that rest after the test."""
    made: list[WorkQueue] = []

    def make(do: Callable[[str], None]) -> WorkQueue:
        made.append(WorkQueue(do))
        return made[-1]

    yield make
    for each in made:
        each.end()


class Work:
    """What is done to runs: it takes as long as a test says."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.done: list[str] = []
        self.go = threading.Semaphore(0)

    def __call__(self, run_id: str) -> None:
        self.begun.append(run_id)
        assert self.go.acquire(timeout=10)
        self.done.append(run_id)


def test_what_takes_long_keeps_no_other_waiting(make_hands: Make) -> None:
    work = Work()
    own = make_hands(work)
    for run_id in "abc":
        own.take(run_id)
    wait_until(lambda: sorted(work.begun) == ["a", "b", "c"])
    assert work.done == []
    work.go.release(3)
    wait_until(lambda: len(work.done) == 3)


def test_of_one_run_nothing_is_done_twice_at_once_and_what_is_said_meanwhile_is_done_after(make_hands: Make) -> None:
    work = Work()
    own = make_hands(work)
    own.take("a")
    wait_until(lambda: work.begun == ["a"])
    for _ in range(5):
        own.take("a")
    assert work.begun == ["a"]
    work.go.release()
    wait_until(lambda: work.begun == ["a", "a"])  # once for all that was said
    work.go.release()
    wait_until(lambda: work.done == ["a", "a"])
    own.take("a")
    wait_until(lambda: work.begun == ["a", "a", "a"])
    work.go.release()


def test_not_more_is_done_at_once_than_there_are_hands(make_hands: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work_queue, "WORKERS", 2)
    work = Work()
    own = make_hands(work)
    for run_id in "abcd":
        own.take(run_id)
    wait_until(lambda: len(work.begun) == 2)
    work.go.release()
    wait_until(lambda: len(work.begun) == 3)
    work.go.release(3)
    wait_until(lambda: len(work.done) == 4)


def test_at_the_end_what_was_begun_is_finished_and_nothing_more_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work_queue, "WORKERS", 1)
    work = Work()
    own = WorkQueue(work)
    for run_id in "abc":
        own.take(run_id)
    wait_until(lambda: work.begun == ["a"])
    ending = threading.Thread(target=own.end)
    ending.start()
    wait_until(lambda: own._pool._shutdown)
    assert ending.is_alive()
    work.go.release()
    ending.join(10)
    assert (work.begun, work.done) == (["a"], ["a"])

"""Databases with concurrent threads: no lost updates, no partial reads, and a locked configuration."""

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import TypeVar

import pytest

from fairlead.adapters.database.stores import DatabaseStore
from fairlead.errors import Changed, Conflict
from fairlead.model.queries import Condition
from fairlead.model.records import RunRecord, SettingsRecord, VolumeRecord
from fairlead.ports import Generation
from tests.contracts.samples import keep, make, make_places

pytestmark = pytest.mark.every_store

Result = TypeVar("Result")

SECONDS = 20  # nothing here takes one; a deadlock fails the test instead of hanging it
WRITERS = 8
CHANGES = 25


@pytest.fixture
def kept(database_store: DatabaseStore) -> DatabaseStore:
    """A store on a database, with the platform and a few places."""
    keep(database_store, *make_places())
    return database_store


def test_of_two_who_save_the_same_revision_one_wins(kept: DatabaseStore) -> None:
    volume = make(VolumeRecord, "v1")
    keep(kept, volume)
    together = threading.Barrier(2)

    def save(size: str) -> str | None:
        together.wait(SECONDS)
        try:
            with kept.changing("assets") as tx:
                tx.save(replace(volume, size=size, revision=2))
        except Changed:
            return None
        return size

    won = [size for size in _at_once(*(lambda size=size: save(size) for size in ("2Gi", "3Gi"))) if size]
    with kept.reading() as tx:
        assert [found.size for found in tx.find(VolumeRecord)] == won


def test_of_two_who_save_without_the_lock_on_the_configuration_one_wins(kept: DatabaseStore) -> None:
    run = make(RunRecord, "r1")
    keep(kept, run)
    together = threading.Barrier(2)

    def save(state: str) -> str | None:
        together.wait(SECONDS)
        try:
            with kept.recording() as tx:
                tx.save(replace(run, state=state, revision=2))
        except Changed:
            return None
        return state

    won = [state for state in _at_once(*(lambda state=state: save(state) for state in ("running", "failed"))) if state]
    with kept.reading() as tx:
        assert [found.state for found in tx.find(RunRecord)] == won


def test_of_two_who_add_the_same_name_one_wins(kept: DatabaseStore) -> None:
    together = threading.Barrier(2)

    def add(id: str) -> bool:
        together.wait(SECONDS)
        try:
            with kept.recording() as tx:
                tx.add(make(VolumeRecord, id, name="data"))
        except Conflict:
            return False
        return True

    assert sorted(_at_once(lambda: add("v1"), lambda: add("v2"))) == [False, True]


def test_many_who_change_the_same_lose_nothing(kept: DatabaseStore) -> None:
    keep(kept, make(SettingsRecord, "settings", defaults={"count": 0}))

    def count() -> None:
        for _ in range(CHANGES):
            with kept.changing("organization") as tx:
                found = tx.get(SettingsRecord, id="settings")
                assert found is not None
                counted = {"count": found.defaults["count"] + 1}
                tx.save(replace(found, defaults=counted, revision=found.revision + 1))

    with kept.reading() as tx:
        before = tx.generation
    _at_once(*[count] * WRITERS)
    with kept.reading() as tx:
        found = tx.get(SettingsRecord, id="settings")
        assert found is not None
        assert (found.defaults, found.revision) == ({"count": WRITERS * CHANGES}, WRITERS * CHANGES + 1)
        assert tx.generation == replace(before, organization=before.organization + WRITERS * CHANGES)


def test_nobody_sees_half_of_a_change(kept: DatabaseStore) -> None:
    volumes = [make(VolumeRecord, "v1", size="0"), make(VolumeRecord, "v2", size="0")]
    keep(kept, *volumes)
    done = threading.Event()

    def write() -> None:
        for number in range(1, CHANGES + 1):
            with kept.changing("assets") as tx:
                for volume in volumes:
                    tx.save(replace(volume, size=str(number), revision=number + 1))
        done.set()

    def read() -> list[tuple[Generation, str, str]]:
        seen = []
        while not done.is_set():
            with kept.reading() as tx:
                first = tx.get(VolumeRecord, id="v1")
                second = tx.get(VolumeRecord, id="v2")
                assert first is not None
                assert second is not None
                seen.append((tx.generation, first.size, second.size))
        return seen

    with ThreadPoolExecutor(3) as threads:
        looks = [threads.submit(read), threads.submit(read)]
        threads.submit(write).result(SECONDS)
    seen = [item for look in looks for item in look.result()]
    assert [item for item in seen if item[1] != item[2]] == []
    sizes_by_generation = {(generation, size) for generation, size, _ in seen}
    assert len(sizes_by_generation) == len({generation for generation, _ in sizes_by_generation})


def test_while_somebody_records_nobody_changes_the_configuration(kept: DatabaseStore) -> None:
    def change() -> Generation:
        with kept.changing("assets") as tx:
            return tx.generation

    with ThreadPoolExecutor(1) as threads:
        with kept.recording() as tx:
            changed = threads.submit(change)
            assert _waits(changed)
            with kept.reading() as look:
                assert look.generation == tx.generation
        assert changed.result(SECONDS) == replace(tx.generation, assets=tx.generation.assets + 1)


def test_while_somebody_changes_the_configuration_nobody_records(kept: DatabaseStore) -> None:
    def record() -> Generation:
        with kept.recording() as tx:
            assert tx.count(VolumeRecord) == 1
            return tx.generation

    with ThreadPoolExecutor(1) as threads:
        with kept.changing("assets") as tx:
            recorded = threads.submit(record)
            assert _waits(recorded)
            tx.add(make(VolumeRecord, "v1"))
        assert recorded.result(SECONDS) == tx.generation


def test_on_postgresql_many_record_at_once(postgresql_store: DatabaseStore) -> None:
    keep(postgresql_store, *make_places())
    together = threading.Barrier(3)

    def record(id: str) -> None:
        with postgresql_store.recording() as tx:
            tx.add(make(RunRecord, id))
            together.wait(SECONDS)  # all three transactions are open

    _at_once(*(lambda id=id: record(id) for id in ("r1", "r2", "r3")))
    with postgresql_store.reading() as tx:
        assert tx.count(RunRecord, Condition("active", "=", True)) == 3


def test_a_look_does_not_wait_for_a_change(kept: DatabaseStore) -> None:
    def look() -> int:
        with kept.reading() as tx:
            return tx.count(VolumeRecord)

    with ThreadPoolExecutor(1) as threads, kept.changing("assets") as tx:
        tx.add(make(VolumeRecord, "v1"))
        assert threads.submit(look).result(SECONDS) == 0


def test_a_change_that_fails_lets_the_next_one_through(kept: DatabaseStore) -> None:
    def fail() -> None:
        with pytest.raises(KeyError), kept.changing("assets"):
            raise KeyError

    _at_once(*[fail] * WRITERS)
    keep(kept, make(VolumeRecord, "v1"))


def _at_once(*tasks: Callable[[], Result]) -> list[Result]:
    with ThreadPoolExecutor(len(tasks)) as threads:
        running = [threads.submit(task) for task in tasks]
        return [task.result(SECONDS) for task in running]


def _waits(task: Future[Generation], seconds: float = 0.2) -> bool:
    """Whether a task is still running after a moment that is long for it."""
    try:
        task.result(seconds)
    except TimeoutError:
        return True
    return False

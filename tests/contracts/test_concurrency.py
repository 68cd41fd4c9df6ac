"""Databases under concurrent threads: no lost updates, no partial reads, and a locked configuration."""

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import TypeVar

import pytest

from fairlead.adapters.database.stores import DatabaseStore
from fairlead.errors import Changed, Conflict
from fairlead.model.columns import Condition
from fairlead.model.records import RunRecord, SettingsRecord, VolumeRecord
from fairlead.ports import Generation
from tests.contracts.samples import add_records, make, make_scopes

pytestmark = pytest.mark.every_store

Result = TypeVar("Result")

SECONDS = 20  # a timeout: a deadlock fails the test instead of hanging it
WRITERS = 8
CHANGES = 25


@pytest.fixture
def filled_store(database_store: DatabaseStore) -> DatabaseStore:
    """A database store with the platform and a few scopes."""
    add_records(database_store, *make_scopes())
    return database_store


def test_one_of_two_saves_of_the_same_revision_succeeds(filled_store: DatabaseStore) -> None:
    volume = make(VolumeRecord, "v1")
    add_records(filled_store, volume)
    barrier = threading.Barrier(2)

    def save(size: str) -> str | None:
        barrier.wait(SECONDS)
        try:
            with filled_store.changing("assets") as tx:
                tx.save(replace(volume, size=size, revision=2))
        except Changed:
            return None
        return size

    saved = [size for size in _run_concurrently(*(lambda size=size: save(size) for size in ("2Gi", "3Gi"))) if size]
    with filled_store.reading() as tx:
        assert [stored.size for stored in tx.find(VolumeRecord)] == saved


def test_one_of_two_saves_without_the_configuration_lock_succeeds(filled_store: DatabaseStore) -> None:
    run = make(RunRecord, "r1")
    add_records(filled_store, run)
    barrier = threading.Barrier(2)

    def save(state: str) -> str | None:
        barrier.wait(SECONDS)
        try:
            with filled_store.recording() as tx:
                tx.save(replace(run, state=state, revision=2))
        except Changed:
            return None
        return state

    saved = [
        state
        for state in _run_concurrently(*(lambda state=state: save(state) for state in ("running", "failed")))
        if state
    ]
    with filled_store.reading() as tx:
        assert [stored.state for stored in tx.find(RunRecord)] == saved


def test_one_of_two_adds_of_the_same_name_succeeds(filled_store: DatabaseStore) -> None:
    barrier = threading.Barrier(2)

    def add(id: str) -> bool:
        barrier.wait(SECONDS)
        try:
            with filled_store.recording() as tx:
                tx.add(make(VolumeRecord, id, name="data"))
        except Conflict:
            return False
        return True

    assert sorted(_run_concurrently(lambda: add("v1"), lambda: add("v2"))) == [False, True]


def test_concurrent_changes_lose_no_update(filled_store: DatabaseStore) -> None:
    add_records(filled_store, make(SettingsRecord, "settings", defaults={"count": 0}))

    def count() -> None:
        for _ in range(CHANGES):
            with filled_store.changing("organization") as tx:
                record = tx.get(SettingsRecord, id="settings")
                assert record is not None
                defaults = {"count": record.defaults["count"] + 1}
                tx.save(replace(record, defaults=defaults, revision=record.revision + 1))

    with filled_store.reading() as tx:
        before = tx.generation
    _run_concurrently(*[count] * WRITERS)
    with filled_store.reading() as tx:
        record = tx.get(SettingsRecord, id="settings")
        assert record is not None
        assert (record.defaults, record.revision) == ({"count": WRITERS * CHANGES}, WRITERS * CHANGES + 1)
        assert tx.generation == replace(before, organization=before.organization + WRITERS * CHANGES)


def test_readers_never_see_a_partial_change(filled_store: DatabaseStore) -> None:
    volumes = [make(VolumeRecord, "v1", size="0"), make(VolumeRecord, "v2", size="0")]
    add_records(filled_store, *volumes)
    done = threading.Event()

    def write() -> None:
        for number in range(1, CHANGES + 1):
            with filled_store.changing("assets") as tx:
                for volume in volumes:
                    tx.save(replace(volume, size=str(number), revision=number + 1))
        done.set()

    def read() -> list[tuple[Generation, str, str]]:
        reads = []
        while not done.is_set():
            with filled_store.reading() as tx:
                first = tx.get(VolumeRecord, id="v1")
                second = tx.get(VolumeRecord, id="v2")
                assert first is not None
                assert second is not None
                reads.append((tx.generation, first.size, second.size))
        return reads

    with ThreadPoolExecutor(3) as threads:
        readers = [threads.submit(read), threads.submit(read)]
        threads.submit(write).result(SECONDS)
    reads = [item for reader in readers for item in reader.result()]
    assert [item for item in reads if item[1] != item[2]] == []
    sizes_by_generation = {(generation, size) for generation, size, _ in reads}
    assert len(sizes_by_generation) == len({generation for generation, _ in sizes_by_generation})


def test_recording_blocks_changes_of_the_configuration(filled_store: DatabaseStore) -> None:
    def change() -> Generation:
        with filled_store.changing("assets") as tx:
            return tx.generation

    with ThreadPoolExecutor(1) as threads:
        with filled_store.recording() as tx:
            changed = threads.submit(change)
            assert _is_blocked(changed)
            with filled_store.reading() as reader:
                assert reader.generation == tx.generation
        assert changed.result(SECONDS) == replace(tx.generation, assets=tx.generation.assets + 1)


def test_changing_the_configuration_blocks_recording(filled_store: DatabaseStore) -> None:
    def record() -> Generation:
        with filled_store.recording() as tx:
            assert tx.count(VolumeRecord) == 1
            return tx.generation

    with ThreadPoolExecutor(1) as threads:
        with filled_store.changing("assets") as tx:
            recorded = threads.submit(record)
            assert _is_blocked(recorded)
            tx.add(make(VolumeRecord, "v1"))
        assert recorded.result(SECONDS) == tx.generation


def test_postgresql_allows_concurrent_recording(postgresql_store: DatabaseStore) -> None:
    add_records(postgresql_store, *make_scopes())
    barrier = threading.Barrier(3)

    def record(id: str) -> None:
        with postgresql_store.recording() as tx:
            tx.add(make(RunRecord, id))
            barrier.wait(SECONDS)  # all three transactions are open

    _run_concurrently(*(lambda id=id: record(id) for id in ("r1", "r2", "r3")))
    with postgresql_store.reading() as tx:
        assert tx.count(RunRecord, Condition("active", "=", True)) == 3


def test_reading_does_not_wait_for_a_change(filled_store: DatabaseStore) -> None:
    def count_volumes() -> int:
        with filled_store.reading() as tx:
            return tx.count(VolumeRecord)

    with ThreadPoolExecutor(1) as threads, filled_store.changing("assets") as tx:
        tx.add(make(VolumeRecord, "v1"))
        assert threads.submit(count_volumes).result(SECONDS) == 0


def test_a_failed_change_releases_the_lock(filled_store: DatabaseStore) -> None:
    def fail() -> None:
        with pytest.raises(KeyError), filled_store.changing("assets"):
            raise KeyError

    _run_concurrently(*[fail] * WRITERS)
    add_records(filled_store, make(VolumeRecord, "v1"))


def _run_concurrently(*tasks: Callable[[], Result]) -> list[Result]:
    with ThreadPoolExecutor(len(tasks)) as threads:
        running = [threads.submit(task) for task in tasks]
        return [task.result(SECONDS) for task in running]


def _is_blocked(task: Future[Generation], seconds: float = 0.2) -> bool:
    """Whether a task is still running after the time in which it would normally have ended."""
    try:
        task.result(seconds)
    except TimeoutError:
        return True
    return False

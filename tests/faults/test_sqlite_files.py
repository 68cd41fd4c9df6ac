"""The SQLite file and its locks: a missing file is an error and is not recreated, and waiting is bounded."""

import contextlib
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from fairlead.adapters.database import engines
from fairlead.adapters.database.migrating import migrate
from fairlead.adapters.database.stores import DatabaseStore
from fairlead.errors import FairleadError, Unavailable
from fairlead.model.records import VolumeRecord
from tests.contracts.samples import add_records, make, make_scopes

LOCK_SECONDS = 1.0


@pytest.fixture
def file(sqlite_url: str) -> Path:
    """A migrated database file."""
    return Path(sqlite_url.removeprefix("sqlite:///"))


@pytest.fixture
def store(sqlite_store: DatabaseStore) -> DatabaseStore:
    """A store with a volume that is only in the write-ahead log so far."""
    add_records(sqlite_store, *make_scopes(), make(VolumeRecord, "v1"))
    return sqlite_store


def count_volumes(store: DatabaseStore) -> int:
    """The number of volumes."""
    with store.reading() as tx:
        return tx.count(VolumeRecord)


def test_moved_database_file_is_unavailable_until_it_is_restored(store: DatabaseStore, file: Path) -> None:
    moved = file.rename(file.with_name("moved.db"))
    for _ in range(3):
        with pytest.raises(Unavailable, match="cannot read the database"):
            count_volumes(store)
        with pytest.raises(Unavailable, match="cannot change the database"):
            add_records(store, make(VolumeRecord, "lost"))
    assert not file.exists()
    moved.rename(file)
    assert count_volumes(store) == 1
    add_records(store, make(VolumeRecord, "v2", name="more"))
    assert count_volumes(store) == 2


def test_replaced_database_file_is_used(store: DatabaseStore, file: Path) -> None:
    restored = file.with_name("restored.db")
    with contextlib.closing(DatabaseStore(f"sqlite:///{restored}")) as other:
        migrate(other.engine)
        add_records(other, *make_scopes(), *(make(VolumeRecord, f"v{n}", name=f"n{n}") for n in range(5)))
    for log in file.parent.glob("fairlead.db-*"):
        log.unlink()  # as when a backup is restored
    restored.replace(file)
    assert count_volumes(store) == 5


def test_write_ahead_log_without_database_is_an_error(store: DatabaseStore, file: Path) -> None:
    with contextlib.closing(sqlite3.connect(file)) as connection:
        connection.execute("SELECT 1 FROM generations")  # an open connection keeps the write-ahead log
        assert file.with_name("fairlead.db-wal").stat().st_size > 0
        moved = file.rename(file.with_name("moved.db"))
        with pytest.raises(
            FairleadError, match=r"fairlead\.db does not exist, but its write-ahead log fairlead\.db-wal does"
        ):
            DatabaseStore(f"sqlite:///{file}")
        assert not file.exists()
        moved.rename(file)
    assert count_volumes(store) == 1


@pytest.fixture
def locked(file: Path) -> Iterator[None]:
    """Hold the database's write lock in another program during the test."""
    with contextlib.closing(sqlite3.connect(file, isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        yield


def test_after_one_lock_timeout_the_next_writers_fail_quickly(
    file: Path, locked: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engines, "LONG_SECONDS", LOCK_SECONDS)
    with contextlib.closing(DatabaseStore(f"sqlite:///{file}")) as store:
        assert time_failing_write(store) >= LOCK_SECONDS
        assert max(time_failing_write(store) for _ in range(3)) < LOCK_SECONDS
        assert count_volumes(store) == 0


def test_after_a_successful_write_the_full_lock_timeout_applies_again(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engines, "LONG_SECONDS", LOCK_SECONDS)
    with contextlib.closing(DatabaseStore(f"sqlite:///{file}")) as store:
        add_records(store, *make_scopes())
        with contextlib.closing(sqlite3.connect(file, isolation_level=None)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            time_failing_write(store)
            connection.execute("ROLLBACK")
            add_records(store, make(VolumeRecord, "v1"))
            connection.execute("BEGIN IMMEDIATE")
            assert time_failing_write(store) >= LOCK_SECONDS


def test_full_disk_is_reported_and_the_change_is_rolled_back(store: DatabaseStore) -> None:
    with pytest.raises(Unavailable) as caught:
        exceed_page_limit(store)
    assert str(caught.value) == "cannot change the database: the database disk is full"
    assert caught.value.hint == "free some space, then try again"
    store.close()  # the max_page_count limit applies to the connection
    assert count_volumes(store) == 1
    add_records(store, make(VolumeRecord, "v2", name="more"))


def exceed_page_limit(store: DatabaseStore) -> None:
    """Write more than fits in the database, as if the disk were full."""
    with store.changing("assets") as tx:
        pages = tx._connection.exec_driver_sql("PRAGMA page_count").scalar_one()
        tx._connection.exec_driver_sql(f"PRAGMA max_page_count={pages + 1}")
        for number in range(1000):
            tx.add(make(VolumeRecord, f"big{number}", name=f"n{number}", size="9" * 1000))


def time_failing_write(store: DatabaseStore) -> float:
    """Write to a locked database, and return the number of seconds until the error."""
    started = time.monotonic()
    with pytest.raises(Unavailable, match="another program has locked the database"), store.changing("assets"):
        pass
    return time.monotonic() - started

"""SQLite's writer lock: how long writers wait for another program, and the error when time runs out."""

import sqlite3
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from fairlead.adapters.database import engines
from fairlead.adapters.database.engines import LOCKED, WriterLock
from fairlead.errors import Unavailable

LONG_SECONDS = 1.0
SQLITE_ERROR, TIMEOUT_ERROR = "database is locked", f"cannot change the database: {LOCKED}"


@pytest.fixture
def lock(monkeypatch: pytest.MonkeyPatch) -> WriterLock:
    """A writer lock with a one-second timeout."""
    monkeypatch.setattr(engines, "LONG_SECONDS", LONG_SECONDS)
    return WriterLock()


@pytest.fixture
def locked(tmp_path: Path) -> Iterator[Path]:
    """A database whose lock another program holds."""
    file = tmp_path / "some.db"
    holder = sqlite3.connect(file, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    yield file
    holder.close()


def test_writer_behind_a_timed_out_writer_waits_only_briefly(lock: WriterLock, locked: Path) -> None:
    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(change, lock, locked)
        time.sleep(LONG_SECONDS / 2)  # half of the second writer's timeout is left when the first writer fails
        second = threads.submit(change, lock, locked)
        assert first.result() == SQLITE_ERROR
        failed_at = time.monotonic()
        assert second.result() == SQLITE_ERROR
        assert time.monotonic() - failed_at < LONG_SECONDS / 2


def test_timed_out_writer_reports_the_cause(lock: WriterLock, locked: Path) -> None:
    with ThreadPoolExecutor(1) as threads:
        with lock:
            message = threads.submit(change, lock, locked).result()
        assert message == "cannot change the database: too many changes are waiting"
        assert change(lock, locked) == SQLITE_ERROR
        with lock:
            message = threads.submit(change, lock, locked).result()
        assert message == TIMEOUT_ERROR


def change(lock: WriterLock, file: Path) -> str:
    """Begin a change and return the error message."""
    connection = sqlite3.connect(file, isolation_level=None)
    try:
        with lock:
            lock.begin(connection)
    except (Unavailable, sqlite3.OperationalError) as error:
        return str(error)
    finally:
        connection.close()
    raise AssertionError("the change began")

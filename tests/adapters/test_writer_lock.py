"""Write lock of SQLite: how long writers wait for another program, and the error afterwards."""

import sqlite3
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from fairlead.adapters.database import writer_lock
from fairlead.adapters.database.writer_lock import LOCKED, WriterLock
from fairlead.errors import Unavailable

LONG_SECONDS = 1.0
AT_THE_LOCK, IN_THE_LINE = "database is locked", f"cannot change the database: {LOCKED}"


@pytest.fixture
def line(monkeypatch: pytest.MonkeyPatch) -> WriterLock:
    """One in which changes wait for a second."""
    monkeypatch.setattr(writer_lock, "LONG_SECONDS", LONG_SECONDS)
    return WriterLock()


@pytest.fixture
def locked(tmp_path: Path) -> Iterator[Path]:
    """A database whose lock another program holds."""
    file = tmp_path / "some.db"
    holder = sqlite3.connect(file, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    yield file
    holder.close()


def test_writer_behind_a_timed_out_writer_waits_only_briefly(line: WriterLock, locked: Path) -> None:
    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(change, line, locked)
        time.sleep(LONG_SECONDS / 2)  # half of the patience of the second is left at its turn
        second = threads.submit(change, line, locked)
        assert first.result() == AT_THE_LOCK
        failed = time.monotonic()
        assert second.result() == AT_THE_LOCK
        assert time.monotonic() - failed < LONG_SECONDS / 2


def test_timed_out_writer_reports_what_takes_long(line: WriterLock, locked: Path) -> None:
    with ThreadPoolExecutor(1) as threads:
        with line:
            message = threads.submit(change, line, locked).result()
        assert message == "cannot change the database: too many changes are waiting"
        assert change(line, locked) == AT_THE_LOCK
        with line:
            message = threads.submit(change, line, locked).result()
        assert message == IN_THE_LINE


def change(line: WriterLock, file: Path) -> str:
    """Begin a change at its turn; how that failed."""
    connection = sqlite3.connect(file, isolation_level=None)
    try:
        with line:
            line.begin(connection)
    except (Unavailable, sqlite3.OperationalError) as error:
        return str(error)
    finally:
        connection.close()
    raise AssertionError("the change began")

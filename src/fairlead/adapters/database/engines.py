"""Opens the database engines, SQLite with one writer at a time or PostgreSQL, and translates database errors."""

import contextlib
import importlib.util
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec
import sqlalchemy as sa
import structlog
from sqlalchemy.exc import ArgumentError, DataError, DBAPIError, DisconnectionError, OperationalError, ProgrammingError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from fairlead.errors import FairleadError, RequestRejected, Unavailable
from fairlead.model.plans import Violation

log = structlog.get_logger()

LONG_SECONDS = 10.0  # how long a change waits for others before it fails with 503
# How long a change waits while another program holds SQLite's lock. With a longer wait, all of the server's threads
# would end up waiting, and not even reads would be served.
BRIEF_SECONDS = 0.1
LOCKED = "another program has locked the database"

POOL = 5
POSTGRESQL = "postgresql+psycopg"  # SQLAlchemy's name for this driver
HINT = "set database to postgresql://user:password@host/name, or omit it to use SQLite in the data folder"
# WAL: readers and the writer do not block each other. FULL: a commit is on disk when it is acknowledged, so that a
# power failure loses no acknowledged change (NORMAL would only keep the database consistent).
# Recursive triggers: the triggers on append-only tables also reject INSERT OR REPLACE.
PRAGMAS = (
    f"busy_timeout={LONG_SECONDS * 1000:.0f}",
    "journal_mode=WAL",
    "synchronous=FULL",
    "foreign_keys=ON",
    "recursive_triggers=ON",
)

# Temporary errors: SQLite's by name, PostgreSQL's by SQLSTATE class. A moved database file causes CANTOPEN or
# READONLY. 08: lost connection, 40: deadlock, 53: out of resources, 55: locked, 57: shutdown, 58: I/O error.
TEMPORARY = tuple(f"SQLITE_{word}" for word in ("BUSY", "LOCKED", "IOERR", "CANTOPEN", "FULL", "READONLY"))
TEMPORARY_STATES = ("08", "40", "53", "55", "57", "58")
# Messages and hints for errors that users can act on.
NO_RESPONSE = "the database is not responding", "try again in a moment"
MESSAGES = {
    "SQLITE_BUSY": (LOCKED, "try again in a moment"),
    "SQLITE_FULL": ("the database disk is full", "free some space, then try again"),
    "53100": ("the database disk is full", "free some space, then try again"),
}


class WriterLock:
    """Allows one writer at a time. After a writer times out, the next ones wait only briefly until one succeeds."""

    # Threads wait for this lock and not for SQLite's, which is polled with increasing pauses: threads would wait
    # longer than needed, and newer ones could repeatedly overtake older ones.

    def __init__(self) -> None:
        self._lock, self._timeout = threading.Lock(), LONG_SECONDS
        self._until: float | None = None  # deadline of the current writer

    def __enter__(self) -> None:
        until = time.monotonic() + self._timeout
        if not self._lock.acquire(timeout=self._timeout):
            reason = "too many changes are waiting" if self._timeout == LONG_SECONDS else LOCKED
            raise Unavailable(f"cannot change the database: {reason}", "try again in a moment")
        self._until = min(until, time.monotonic() + self._timeout)  # another writer may have timed out in the meantime

    def __exit__(self, *_: object) -> None:
        self._until = None
        self._lock.release()

    def begin(self, connection: sqlite3.Connection) -> None:
        """Begin as a writer: a transaction that reads first and writes later fails if another one writes in between."""
        # Migrations use the engine without entering this lock.
        left = LONG_SECONDS if self._until is None else max(self._until - time.monotonic(), BRIEF_SECONDS)
        connection.execute(f"PRAGMA busy_timeout={left * 1000:.0f}")
        try:
            connection.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode == sqlite3.SQLITE_BUSY:
                self._timeout = BRIEF_SECONDS
            raise
        # The other program has released the database.
        self._timeout = LONG_SECONDS


def open_engines(url: str, lock: WriterLock) -> tuple[sa.Engine, sa.Engine]:
    """Return an engine for writing, which on SQLite uses the lock, and one for reading."""
    try:
        address = sa.make_url(url)
    except (ArgumentError, ValueError):  # ValueError: the port is not a number
        raise FairleadError("the database URL is invalid", HINT) from None
    if address.drivername not in ("sqlite", "postgresql", POSTGRESQL):
        raise FairleadError(f"{address.drivername} databases are not supported", HINT)
    if address.drivername == "sqlite":
        _make_file(address)
        # query_only: a write in a read transaction fails, as it does on PostgreSQL.
        return _open_sqlite(address, lock.begin), _open_sqlite(address, _begin_reading, "query_only=ON")
    address = address.set(drivername=POSTGRESQL)
    # The writer uses the default, READ COMMITTED: after waiting for a lock, a statement must see what the previous
    # holder committed. The reader shares the writer's pool. With REPEATABLE READ, all statements in a transaction see
    # the same snapshot.
    writer = _create(address)
    reader = writer.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
    return writer, reader


def _open_sqlite(address: sa.URL, begin: Callable[[sqlite3.Connection], None], *more: str) -> sa.Engine:
    file = _file_of(address)

    def connect() -> sqlite3.Connection:
        # Never create the file: an empty database in place of a missing one would take over its WAL and corrupt both.
        # The pool passes a connection from thread to thread, but only one thread uses it at a time.
        return sqlite3.connect(f"file:{quote(str(file))}?mode=rw", uri=True, check_same_thread=False)

    engine = _create(address) if file is None else _create(address, creator=connect)

    @sa.event.listens_for(engine, "connect")
    def prepare(connection: Any, record: Any) -> None:
        record.info["file"] = _identify(file)
        connection.isolation_level = None  # the engine begins transactions, not the driver
        for pragma in (*PRAGMAS, *more):
            _set(connection, pragma)

    @sa.event.listens_for(engine, "checkout")
    def check(_connection: Any, record: Any, _proxy: Any) -> None:
        # An open file stays usable after it is moved or replaced, for example by a restored backup: changes would be
        # written to the old file and lost. DisconnectionError makes the pool reconnect to the current file.
        if _identify(file) != record.info["file"]:
            raise DisconnectionError("the database file was replaced or removed")

    @sa.event.listens_for(engine, "begin")
    def start(connection: sa.Connection) -> None:
        begin(connection.connection.driver_connection)  # type: ignore[arg-type]

    return engine


def _begin_reading(connection: sqlite3.Connection) -> None:
    connection.execute("BEGIN")


def _file_of(address: sa.URL) -> Path | None:
    """Return the path of the database file; None if the database is in memory."""
    return None if address.database in (None, "", ":memory:") else Path(address.database).absolute()


def _make_file(address: sa.URL) -> None:
    """Create the database file if it does not exist: an empty file is an empty database."""
    file = _file_of(address)
    if file is None or file.exists() or not file.parent.is_dir():
        return  # a missing folder is reported when the first connection is opened
    log = file.with_name(f"{file.name}-wal")
    if log.exists():
        message = f"{file} does not exist, but its write-ahead log {log.name} does"
        raise FairleadError(message, f"restore {file.name}, or move {log.name} away to start with a new database")
    file.touch()


def _identify(file: Path | None) -> tuple[int, int] | None:
    """Return the identity of the file at a path, which changes if the file is replaced."""
    try:
        status = None if file is None else os.stat(file)
    except OSError:
        return None
    return None if status is None else (status.st_dev, status.st_ino)


def _set(connection: sqlite3.Connection, pragma: str) -> None:
    """Set a pragma, with retries: SQLite ignores the busy timeout while another process writes a WAL's first pages."""
    deadline = time.monotonic() + LONG_SECONDS
    while True:
        try:
            connection.execute(f"PRAGMA {pragma}")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(0.01)


def _create(address: sa.URL, **options: Any) -> sa.Engine:
    if address.get_backend_name() == "postgresql" and importlib.util.find_spec("psycopg") is None:
        raise FairleadError("PostgreSQL needs psycopg, which is not installed", "pip install 'fairlead[postgres]'")
    return sa.create_engine(
        address,
        pool_size=POOL,
        max_overflow=POOL,
        pool_reset_on_return=None,  # every transaction is closed explicitly, so a rollback would be a useless query
        hide_parameters=True,  # errors are logged and must not contain user data
        json_serializer=lambda value: msgspec.json.encode(value).decode(),
        json_deserializer=msgspec.json.decode,
        **options,
    )


@contextlib.contextmanager
def translate_errors(operation: str) -> Iterator[None]:
    """Raise our errors in place of the database library's. `operation` completes "cannot ..."."""
    try:
        yield
    # sqlite3 errors arrive unwrapped from the engine's event handlers, which use the driver directly.
    except (OperationalError, PoolTimeout, sqlite3.OperationalError) as error:
        if not _is_temporary(error):
            raise
        # The reason is logged but not shown, because it contains host, user and file names.
        log.warning("database failed", operation=operation, reason=_reason(error))
        problem, hint = MESSAGES.get(_code_of(error), NO_RESPONSE)
        raise Unavailable(f"cannot {operation}: {problem}", hint) from error
    # For example, PostgreSQL cannot store a NUL character or a number that needs more than 64 bits.
    except DataError as error:
        violation = Violation(
            "", "value", "the database cannot store one of the values", "use a smaller number, or remove NUL characters"
        )
        raise RequestRejected([violation]) from error
    except DBAPIError as error:
        if getattr(error.orig, "sqlite_errorname", "") == "SQLITE_NOTADB":
            raise FairleadError(
                f"cannot {operation}: the file is not a database", "set FAIRLEAD_DATA to another folder"
            ) from error
        if error.statement is None and isinstance(error, ProgrammingError):  # raised while connecting
            # The parameter is not shown: in a URL whose password contains a `?`, it is part of the password.
            raise FairleadError(f"cannot {operation}: the database URL has an invalid parameter", HINT) from None
        if error.connection_invalidated:
            raise Unavailable(f"cannot {operation}: the connection was lost", "try again in a moment") from error
        raise


def _is_temporary(error: Exception) -> bool:
    """Whether a retry may succeed, which depends on the error's code, not on its type."""
    code = _code_of(error)
    return code.startswith(TEMPORARY if code.startswith("SQLITE") else TEMPORARY_STATES)


def _code_of(error: Exception) -> str:
    """Return the SQLite error name or the PostgreSQL SQLSTATE; if there is neither, the one for a lost connection."""
    cause = _cause_of(error)
    return str(getattr(cause, "sqlite_errorname", None) or getattr(cause, "sqlstate", None) or "08000")


def _reason(error: Exception) -> str:
    return (str(_cause_of(error)).strip().splitlines() or ["no response"])[0]


def _cause_of(error: Exception) -> BaseException:
    """Return the driver's error, which the library usually wraps."""
    return getattr(error, "orig", None) or error

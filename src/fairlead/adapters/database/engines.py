"""Opens the database engines: a SQLite file with one writer at a time, or a PostgreSQL server."""

import importlib.util
import os
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec
import sqlalchemy as sa
from sqlalchemy.exc import ArgumentError, DisconnectionError

from fairlead.adapters.database.writer_lock import LONG_SECONDS, WriterLock
from fairlead.errors import FairleadError

POOL = 5
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


def open_engines(url: str, lock: WriterLock) -> tuple[sa.Engine, sa.Engine]:
    """Return an engine for writing, which on SQLite uses the lock, and one for reading."""
    try:
        address = sa.make_url(url)
    except ArgumentError:
        raise FairleadError("the database URL is invalid", HINT) from None
    if address.get_backend_name() not in ("sqlite", "postgresql"):
        raise FairleadError(f"{address.get_backend_name()} databases are not supported", HINT)
    if address.get_backend_name() == "sqlite":
        _make_file(address)
        # query_only: a write in a read transaction fails, as it does on PostgreSQL.
        return _open_sqlite(address, lock.begin), _open_sqlite(address, _begin_reading, "query_only=ON")
    if address.drivername == "postgresql":
        address = address.set(drivername="postgresql+psycopg")
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

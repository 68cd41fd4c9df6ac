"""How the databases are reached: SQLite as one file with one writer at a time, PostgreSQL by its address."""

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

from fairlead.adapters.database.waiting import LONG_SECONDS, Line
from fairlead.errors import FairleadError

POOL = 5
KNOWN = "set it to postgresql://user:password@host/name, or leave it out for SQLite in the data folder"
# WAL: readers and the writer do not wait for each other. FULL: a commit has reached the disk when it is acknowledged,
# so that no acknowledged change is lost with the power (NORMAL would only keep the database whole).
# Recursive triggers: what is append-only refuses INSERT OR REPLACE too.
PRAGMAS = (
    f"busy_timeout={LONG_SECONDS * 1000:.0f}",
    "journal_mode=WAL",
    "synchronous=FULL",
    "foreign_keys=ON",
    "recursive_triggers=ON",
)


def open_engines(url: str, line: Line) -> tuple[sa.Engine, sa.Engine]:
    """An engine for changes, which on SQLite begin in a line, and one for looks."""
    try:
        address = sa.make_url(url)
    except ArgumentError:
        raise FairleadError("the database is no address", KNOWN) from None
    if address.get_backend_name() not in ("sqlite", "postgresql"):
        raise FairleadError(f"the database is {address.get_backend_name()}, which is not supported", KNOWN)
    if address.get_backend_name() == "sqlite":
        _make_file(address)
        return _open_sqlite(address, line.begin), _open_sqlite(address, _begin_look, "query_only=ON")
    if address.drivername == "postgresql":
        address = address.set(drivername="postgresql+psycopg")
    writer = _create(address)
    reader = writer.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
    return writer, reader


def _open_sqlite(address: sa.URL, begin: Callable[[sqlite3.Connection], None], *more: str) -> sa.Engine:
    file = _file_of(address)

    def connect() -> sqlite3.Connection:
        # Never made anew: an empty one in the place of one that is away would take its log, and spoil both.
        return sqlite3.connect(f"file:{quote(str(file))}?mode=rw", uri=True, check_same_thread=False)

    engine = _create(address) if file is None else _create(address, creator=connect)

    @sa.event.listens_for(engine, "connect")
    def prepare(connection: Any, record: Any) -> None:
        record.info["file"] = _identify(file)
        connection.isolation_level = None  # transactions begin where the engine says so, not where the driver guesses
        for pragma in (*PRAGMAS, *more):
            _set(connection, pragma)

    @sa.event.listens_for(engine, "checkout")
    def check(_connection: Any, record: Any, _proxy: Any) -> None:
        if _identify(file) != record.info["file"]:
            raise DisconnectionError("another file is in the place of the database, or none")

    @sa.event.listens_for(engine, "begin")
    def start(connection: sa.Connection) -> None:
        begin(connection.connection.driver_connection)  # type: ignore[arg-type]

    return engine


def _begin_look(connection: sqlite3.Connection) -> None:
    connection.execute("BEGIN")


def _file_of(address: sa.URL) -> Path | None:
    """Where the database is; None where it is in memory."""
    return None if address.database in (None, "", ":memory:") else Path(address.database).absolute()


def _make_file(address: sa.URL) -> None:
    """Make the file of a database, once: an empty file is an empty database."""
    file = _file_of(address)
    if file is None or file.exists() or not file.parent.is_dir():
        return
    log = file.with_name(f"{file.name}-wal")
    if log.exists():
        message = f"there is no {file}, and its log {log.name} is there"
        raise FairleadError(message, f"bring {file.name} back, or move {log.name} away for a new database")
    file.touch()


def _identify(file: Path | None) -> tuple[int, int] | None:
    """Which file is at a path now: it may have been moved away, or another one put in its place."""
    try:
        found = None if file is None else os.stat(file)
    except OSError:
        return None
    return None if found is None else (found.st_dev, found.st_ino)


def _set(connection: sqlite3.Connection, pragma: str) -> None:
    """Set a pragma. The busy timeout does not hold for WAL where another one is writing the very first pages."""
    last = time.monotonic() + LONG_SECONDS
    while True:
        try:
            connection.execute(f"PRAGMA {pragma}")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > last:
                raise
            time.sleep(0.01)


def _create(address: sa.URL, **options: Any) -> sa.Engine:
    if address.get_backend_name() == "postgresql" and importlib.util.find_spec("psycopg") is None:
        raise FairleadError("PostgreSQL needs psycopg, which is not installed", "pip install 'fairlead[postgres]'")
    return sa.create_engine(
        address,
        pool_size=POOL,
        max_overflow=POOL,
        pool_reset_on_return=None,  # every transaction ends where it began; once more would be a question for nothing
        hide_parameters=True,  # an error must not carry what people keep into a log
        json_serializer=lambda value: msgspec.json.encode(value).decode(),
        json_deserializer=msgspec.json.decode,
        **options,
    )

"""How the databases are reached: SQLite as one file with one writer at a time, PostgreSQL by its address."""

import importlib.util
import sqlite3
import time
from typing import Any

import msgspec
import sqlalchemy as sa
from sqlalchemy.exc import ArgumentError

from fairlead.errors import FairleadError

POOL = 5
KNOWN = "set it to postgresql://user:password@host/name, or leave it out for SQLite in the data folder"
BUSY_MILLISECONDS = 10_000
# WAL: readers and the writer do not wait for each other. FULL: a commit has reached the disk when it is acknowledged,
# so that no acknowledged change is lost with the power (NORMAL would only keep the database whole).
# Recursive triggers: what is append-only refuses INSERT OR REPLACE too.
PRAGMAS = (
    f"busy_timeout={BUSY_MILLISECONDS}",
    "journal_mode=WAL",
    "synchronous=FULL",
    "foreign_keys=ON",
    "recursive_triggers=ON",
)


def open_engines(url: str) -> tuple[sa.Engine, sa.Engine]:
    """An engine for changes and one for looks."""
    try:
        address = sa.make_url(url)
    except ArgumentError:
        raise FairleadError("the database is no address", KNOWN) from None
    if address.get_backend_name() not in ("sqlite", "postgresql"):
        raise FairleadError(f"the database is {address.get_backend_name()}, which is not supported", KNOWN)
    if address.get_backend_name() == "sqlite":
        writer, reader = _open_sqlite(address, "BEGIN IMMEDIATE"), _open_sqlite(address, "BEGIN", "query_only=ON")
        return writer, reader
    if address.drivername == "postgresql":
        address = address.set(drivername="postgresql+psycopg")
    writer = _create(address)
    reader = writer.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
    return writer, reader


def _open_sqlite(address: sa.URL, begin: str, *more: str) -> sa.Engine:
    engine = _create(address)

    @sa.event.listens_for(engine, "connect")
    def prepare(connection: Any, _record: Any) -> None:
        connection.isolation_level = None  # transactions begin where the engine says so, not where the driver guesses
        for pragma in (*PRAGMAS, *more):
            _set(connection, pragma)

    @sa.event.listens_for(engine, "begin")
    def start(connection: sa.Connection) -> None:
        # A writer that begins as a reader would fail at its first write where another one wrote since.
        connection.connection.driver_connection.execute(begin)  # type: ignore[union-attr]

    return engine


def _set(connection: sqlite3.Connection, pragma: str) -> None:
    """Set a pragma. The busy timeout does not hold for WAL where another one is writing the very first pages."""
    last = time.monotonic() + BUSY_MILLISECONDS / 1000
    while True:
        try:
            connection.execute(f"PRAGMA {pragma}")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > last:
                raise
            time.sleep(0.01)


def _create(address: sa.URL) -> sa.Engine:
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
    )

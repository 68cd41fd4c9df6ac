"""Serializes SQLite writers in this server, and limits how long they wait for other programs."""

import sqlite3
import threading
import time

from fairlead.errors import Unavailable

LONG_SECONDS = 10.0  # how long a change waits for others before it fails with 503
# How long a change waits while another program holds SQLite's lock. With a longer wait, all of the server's threads
# would end up waiting, and not even reads would be served.
BRIEF_SECONDS = 0.1
LOCKED = "another program has locked the database"


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

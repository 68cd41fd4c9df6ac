"""How long a change of SQLite waits: for those of this server in a line, for those of other programs at their lock."""

import sqlite3
import threading
import time

from fairlead.errors import Unavailable

LONG_SECONDS = 10.0
# While another program keeps its lock: or all threads of the server would wait for it, and nobody could even look.
BRIEF_SECONDS = 0.1
LOCKED = "another program has locked the database"


class Line:
    """One change at a time. After one has waited for long and in vain, the next ones hardly wait, until one gets on."""

    def __init__(self) -> None:
        self._lock, self._patience = threading.Lock(), LONG_SECONDS
        self._until: float | None = None  # of the change whose turn it is

    def __enter__(self) -> None:
        until = time.monotonic() + self._patience
        if not self._lock.acquire(timeout=self._patience):
            why = "too many wait to do that" if self._patience == LONG_SECONDS else LOCKED
            raise Unavailable(f"changing the database: {why}", "try again in a moment")
        self._until = min(until, time.monotonic() + self._patience)  # others may have waited in vain since

    def __exit__(self, *_: object) -> None:
        self._until = None
        self._lock.release()

    def begin(self, connection: sqlite3.Connection) -> None:
        """Begin a change. One that began as a look would fail at its first write where another one wrote since."""
        left = LONG_SECONDS if self._until is None else max(self._until - time.monotonic(), BRIEF_SECONDS)
        connection.execute(f"PRAGMA busy_timeout={left * 1000:.0f}")
        try:
            connection.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode == sqlite3.SQLITE_BUSY:
                self._patience = BRIEF_SECONDS
            raise
        self._patience = LONG_SECONDS

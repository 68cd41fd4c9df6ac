"""Translates database errors into our own. No other module needs to know the database library's errors."""

import contextlib
import sqlite3
from collections.abc import Iterator

import structlog
from sqlalchemy.exc import DataError, DBAPIError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from fairlead.adapters.database.writer_lock import LOCKED
from fairlead.errors import FairleadError, RequestRejected, Unavailable
from fairlead.model.plans import Violation

log = structlog.get_logger()

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
            "", "value", "the database cannot store one of the values", "use a smaller value without unusual characters"
        )
        raise RequestRejected([violation]) from error
    except DBAPIError as error:
        if getattr(error.orig, "sqlite_errorname", "") == "SQLITE_NOTADB":
            raise FairleadError(
                f"cannot {operation}: the file is not a database", "set data to another folder"
            ) from error
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

"""The only module that knows how databases fail: their errors in our words, chained."""

import contextlib
import sqlite3
from collections.abc import Iterator

import structlog
from sqlalchemy.exc import DataError, DBAPIError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from fairlead.adapters.database.waiting import LOCKED
from fairlead.errors import FairleadError, RequestRejected, Unavailable
from fairlead.model.plans import Violation

log = structlog.get_logger()

# What SQLite says of a moment or of the disk, not of a statement; and PostgreSQL, by class.
PASSING = tuple(f"SQLITE_{word}" for word in ("BUSY", "LOCKED", "IOERR", "CANTOPEN", "FULL", "READONLY"))
PASSING_STATES = ("08", "40", "53", "55", "57", "58")
# What people can do something about, in words, with what that is.
SILENT = "the database does not answer", "try again in a moment"
TOLD = {
    "SQLITE_BUSY": (LOCKED, "try again in a moment"),
    "SQLITE_FULL": ("the disk of the database is full", "make room on it, then try again"),
    "53100": ("the disk of the database is full", "make room on it, then try again"),
}


@contextlib.contextmanager
def translated(doing: str) -> Iterator[None]:
    """Raise our errors in place of the library's, so that no other layer knows it."""
    try:
        yield
    except (OperationalError, PoolTimeout, sqlite3.OperationalError) as error:
        if not _is_passing(error):
            raise
        # Why is for the log: it names hosts, users and files.
        log.warning("database failed", doing=doing, reason=_reason(error))
        problem, hint = TOLD.get(_code_of(error), SILENT)
        raise Unavailable(f"{doing}: {problem}", hint) from error
    except DataError as error:
        violation = Violation(
            "", "value", "a value is one that the database cannot hold", "write a smaller or plainer one"
        )
        raise RequestRejected([violation]) from error
    except DBAPIError as error:
        if getattr(error.orig, "sqlite_errorname", "") == "SQLITE_NOTADB":
            raise FairleadError(f"{doing}: the file is no database", "set data to another folder") from error
        if error.connection_invalidated:
            raise Unavailable(f"{doing}: the connection was lost", "try again in a moment") from error
        raise


def _is_passing(error: Exception) -> bool:
    """Whether it may be better in a moment: types do not tell that from a mistake in a statement, codes do."""
    code = _code_of(error)
    return code.startswith(PASSING if code.startswith("SQLITE") else PASSING_STATES)


def _code_of(error: Exception) -> str:
    """The name that SQLite gives an error, or the state that PostgreSQL does; where there is none, that of silence."""
    cause = _cause_of(error)
    return str(getattr(cause, "sqlite_errorname", None) or getattr(cause, "sqlstate", None) or "08000")


def _reason(error: Exception) -> str:
    return (str(_cause_of(error)).strip().splitlines() or ["no answer"])[0]


def _cause_of(error: Exception) -> BaseException:
    """What the database said: the error of its driver, which the library mostly wraps."""
    return getattr(error, "orig", None) or error

"""The only module that knows how databases fail: their errors in our words, chained."""

import contextlib
from collections.abc import Iterator

import structlog
from sqlalchemy.exc import DataError, DBAPIError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from fairlead.errors import FairleadError, RequestRejected, Unavailable
from fairlead.model.plans import Violation

log = structlog.get_logger()

# What SQLite says of a moment or of the disk, not of a statement; and PostgreSQL, by class.
PASSING = tuple(f"SQLITE_{word}" for word in ("BUSY", "LOCKED", "IOERR", "CANTOPEN", "FULL", "READONLY"))
PASSING_STATES = ("08", "40", "53", "55", "57", "58")


@contextlib.contextmanager
def translated(doing: str) -> Iterator[None]:
    """Raise our errors in place of the library's, so that no other layer knows it."""
    try:
        yield
    except (OperationalError, PoolTimeout) as error:
        if not _is_passing(error):
            raise
        # Why is for the log: it names hosts, users and files.
        log.warning("database failed", doing=doing, reason=_reason(error))
        raise Unavailable(f"{doing}: the database does not answer", "try again in a moment") from error
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
    cause = getattr(error, "orig", None)
    name, state = getattr(cause, "sqlite_errorname", None), getattr(cause, "sqlstate", None)
    return str(name or "SQLITE_BUSY").startswith(PASSING) and (state is None or state[:2] in PASSING_STATES)


def _reason(error: Exception) -> str:
    cause = getattr(error, "orig", None) or error
    return (str(cause).strip().splitlines() or ["no answer"])[0]

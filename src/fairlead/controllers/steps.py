"""Steps that may fail without keeping anything else from being done. What does is tried again in a while."""

from collections.abc import Callable

import structlog

from fairlead.errors import FairleadError, Unavailable

log = structlog.get_logger()


def log_failures(doing: str, step: Callable[[], None], *expected: type[Exception]) -> bool:
    """Do something; whether it worked. What nobody thought of is told with its traceback."""
    try:
        step()
        return True
    except Exception as error:
        if isinstance(error, Unavailable):
            log.info(f"{doing} failed", problem=str(error))
        else:
            known = isinstance(error, (FairleadError, *expected))
            log.error(f"{doing} failed", problem=str(error), exc_info=None if known else error)
        return False

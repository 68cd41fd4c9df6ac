"""Runs steps of a controller that may fail without stopping the others."""

from collections.abc import Callable

import structlog

from fairlead.errors import FairleadError, Unavailable

log = structlog.get_logger()


def log_failures(name: str, step: Callable[[], None], *expected: type[Exception]) -> bool:
    """Run a step, log its failure and continue. Returns whether it succeeded.

    Unexpected exceptions are logged with a traceback: those that are neither a `FairleadError` nor in `expected`.
    """
    try:
        step()
        return True
    except Exception as error:
        # Temporary, for example an unreachable cluster. Steps are retried, so this is not an error of the server.
        if isinstance(error, Unavailable):
            log.info(f"{name} failed", problem=str(error))
        else:
            known = isinstance(error, (FairleadError, *expected))
            log.error(f"{name} failed", problem=str(error), exc_info=None if known else error)
        return False

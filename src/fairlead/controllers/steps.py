"""Runs controller steps that may fail without stopping the others."""

from collections.abc import Callable

import structlog

from fairlead.errors import FairleadError, Unavailable

log = structlog.get_logger()


def log_failures(name: str, step: Callable[[], None], *expected: type[Exception]) -> bool:
    """Run a step, log its failure and continue. Returns whether it succeeded.

    Unexpected exceptions, which are neither a `FairleadError` nor in `expected`, are logged with a traceback.
    """
    try:
        step()
        return True
    except Exception as error:
        # A temporary failure, for example an unreachable cluster. Steps are retried, so this is not a server error.
        if isinstance(error, Unavailable):
            log.info(f"{name} failed", problem=str(error))
        else:
            known = isinstance(error, (FairleadError, *expected))
            log.error(f"{name} failed", problem=str(error), exc_info=None if known else error)
        return False

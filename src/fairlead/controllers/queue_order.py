"""Whose turn it is to be given a place, as the store knows it: who waits, what is held, and what quotas leave."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from fairlead.core import quotas
from fairlead.core.queue_order import COUNTED_BY, HOLDING, QUOTA, WAITING, Queue, QuotaLimits
from fairlead.core.quotas import Short
from fairlead.core.scope_tree import Tree
from fairlead.model.policies import Quota
from fairlead.model.queries import Condition
from fairlead.model.records import PolicyRecord, RunRecord, ScopeRecord
from fairlead.ports import Transaction

HELD_PER_QUOTA = 50  # of those that one quota holds, the oldest: when some of them are let in, there is another look


@dataclass
class AdmissionPass:
    """One look at those that wait, the oldest first."""

    waiting: Sequence[RunRecord]
    bounds: QuotaLimits
    line: Queue
    more: dict[str, str] = field(default_factory=dict)  # the last one seen of those that a quota holds, of too many
    _moved: set[str] = field(default_factory=set)  # the scopes of quotas by which somebody was let in who was held
    _stuck: set[str] = field(default_factory=set)  # and by which somebody was let in and has no place all the same

    def is_bound(self, run: RunRecord) -> bool:
        """Whether any quota counts it."""
        return bool(self.bounds.on(run.scope))

    def find_short(self, run: RunRecord) -> list[Short]:
        """What quotas lack for a run; nothing where it is its turn."""
        path = self._path(run)
        return self.line.find_short(quotas.load_of(run), path) if path else []

    def comes_later(self, run: RunRecord) -> bool:
        """Whether older ones may be next that were not looked at yet: those behind them are for the next look."""
        if not self._moved:
            return False
        return any(run.turn > self.more.get(scope, run.turn) for scope in self._moved.intersection(self._path(run)))

    def turn_away(self, run: RunRecord, lacking: Sequence[Short]) -> None:
        """Let nobody in before a run that waits for a quota."""
        self.line.reserve_for_waiting(quotas.load_of(run), self._path(run), lacking)

    def let_in(self, run: RunRecord) -> None:
        """Count a run that has a place."""
        self.line.take(quotas.load_of(run), self._path(run))
        if run.reason == QUOTA:
            self._moved.update(self._path(run))

    def leave(self, run: RunRecord) -> bool:
        """Take note of a run that has no place although it is its turn; whether there is more to say than before.

        Those behind it wait for their turn still. To tell each of them otherwise, and back again when it has a place,
        would write all of them with each run that ends.
        """
        path = self._path(run)
        behind = run.reason == QUOTA and not self._stuck.isdisjoint(path)
        self._stuck.update(path)
        return not behind

    def _path(self, run: RunRecord) -> tuple[str, ...]:
        return self.bounds.on(run.scope)


def load_quota_limits(tx: Transaction) -> QuotaLimits:
    """All quotas. The tree only where there are any."""
    policies = tx.find(PolicyRecord)
    said = [(kept.scope, Quota.model_validate(kept.content["quota"])) for kept in policies if "quota" in kept.content]
    if not said:
        return QuotaLimits()
    return QuotaLimits.of(Tree({place.scope: place.parent for place in tx.find(ScopeRecord) if place.parent}), said)


def load_admission_pass(
    tx: Transaction,
    bounds: QuotaLimits,
    clusters: Collection[str],
    *,
    now: datetime,
    most: int,
    freed: Collection[str] | None,
) -> AdmissionPass:
    """Those that wait on some clusters, of so many of them the oldest, and what quotas have left for them.

    Not those that are to be tried again after a pause that is not over. Those that a quota holds are apart, so that a
    thousand of them hide nobody else: they are looked at where something ended or arrived at the freed scopes;
    everywhere, where none are said.
    """
    here = (*WAITING, Condition("retry_at", "until", now), Condition("cluster", "in", tuple(clusters)))
    if not bounds.limits:
        return AdmissionPass(tx.find(RunRecord, *here, by="turn", limit=most), bounds, Queue({}))
    held = (*here, Condition("reason", "=", QUOTA))
    waiting = tx.find(RunRecord, *here, Condition("reason", "!=", QUOTA), by="turn", limit=most)
    held_at = set() if freed is not None else {scope for (scope,) in tx.tally(RunRecord, ("scope",), *held)}
    scopes = {run.scope for run in waiting}.union(freed or (), held_at)
    found, more = {run.id: run for run in waiting}, dict[str, str]()
    for place in sorted({place for scope in scopes for place in bounds.on(scope)}):
        oldest = tx.find(RunRecord, *held, *bounds.within(place), by="turn", limit=HELD_PER_QUOTA)
        found |= {run.id: run for run in oldest}
        if len(oldest) == HELD_PER_QUOTA:
            more[place] = oldest[-1].turn
    if unbound := tuple(scope for scope in held_at if not bounds.on(scope)):  # the quota is there no more
        freely = tx.find(RunRecord, *held, Condition("scope", "in", unbound), by="turn", limit=most)
        found |= {run.id: run for run in freely}
    line = Queue(bounds.measure(tx.tally(RunRecord, COUNTED_BY, *HOLDING, *bounds.within(*bounds.limits))))
    return AdmissionPass(sorted(found.values(), key=lambda run: run.turn), bounds, line, more)


def fits_quotas(tx: Transaction, bounds: QuotaLimits, run: RunRecord) -> bool:
    """Whether quotas leave a run enough. Only what is counted alone stays true until it is kept."""
    path = bounds.on(run.scope)
    if not path:
        return True
    held = bounds.measure(tx.tally(RunRecord, COUNTED_BY, *HOLDING, *bounds.within(path[0])))
    return not quotas.find_short(quotas.load_of(run), [held[scope] for scope in path])

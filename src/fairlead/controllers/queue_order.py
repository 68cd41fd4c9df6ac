"""Loads the queue and the quota usage from the store for one admission pass."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from fairlead.model.assets import Quota
from fairlead.model.columns import Condition
from fairlead.model.records import PolicyRecord, RunRecord, ScopeRecord
from fairlead.model.scopes import ScopeTree
from fairlead.ports import Transaction
from fairlead.scheduling import quotas
from fairlead.scheduling.queue_order import ADMITTED, COUNTED_BY, QUOTA, WAITING, Queue, QuotaLimits
from fairlead.scheduling.quotas import QuotaShortage

HELD_PER_QUOTA = 50  # waiting runs read per quota, oldest first; if some are admitted, another pass follows


@dataclass
class AdmissionPass:
    """The waiting runs that one pass considers, oldest first, and the quota usage."""

    waiting: Sequence[RunRecord]
    quota_limits: QuotaLimits
    queue: Queue
    last_read: dict[str, str] = field(default_factory=dict)  # by scope: key of the last run read, if there are more
    _admitted: set[str] = field(default_factory=set)  # quota scopes in which a run that waited for a quota was admitted
    _blocked: set[str] = field(default_factory=set)  # quota scopes in which an allowed run found no node

    def has_quota(self, run: RunRecord) -> bool:
        """Whether any quota applies to a run."""
        return bool(self._path(run))

    def find_shortages(self, run: RunRecord) -> list[QuotaShortage]:
        """Return the shortages in a run's quotas; empty if the run may be admitted."""
        path = self._path(run)
        return self.queue.find_shortages(quotas.amounts_of(run), path) if path else []

    def has_unread_before(self, run: RunRecord) -> bool:
        """Whether older runs that this pass did not read might go first. The next pass considers them."""
        # If no run waiting for a quota was admitted, the older runs that were not read would not be admitted either.
        if not self._admitted:
            return False
        scopes = self._admitted.intersection(self._path(run))
        return any(run.queue_key > self.last_read.get(scope, run.queue_key) for scope in scopes)

    def hold(self, run: RunRecord, lacking: Sequence[QuotaShortage]) -> None:
        """Keep a run waiting for its quotas, and keep later runs behind it."""
        self.queue.reserve_for_waiting(quotas.amounts_of(run), self._path(run), lacking)

    def count_admitted(self, run: RunRecord) -> None:
        """Count an admitted run against its quotas."""
        self.queue.add_usage(quotas.amounts_of(run), self._path(run))
        if run.reason == QUOTA:
            self._admitted.update(self._path(run))

    def count_unplaced(self, run: RunRecord) -> bool:
        """Record a run that is within its quotas but fits on no node. Returns whether its new reason must be saved.

        Runs behind it keep the quota as their reason. Otherwise, all of their records would be rewritten twice
        whenever a run ends.
        """
        path = self._path(run)
        is_behind = run.reason == QUOTA and not self._blocked.isdisjoint(path)
        self._blocked.update(path)
        return not is_behind

    def _path(self, run: RunRecord) -> tuple[str, ...]:
        return self.quota_limits.limiting_scopes(run.scope)


def load_quota_limits(tx: Transaction) -> QuotaLimits:
    """Read the quotas of all scopes."""
    quota_of_scopes = [
        (policy.scope, Quota.model_validate(policy.content["quota"]))
        for policy in tx.find(PolicyRecord)
        if "quota" in policy.content
    ]
    if not quota_of_scopes:  # most platforms have no quotas, so the tree is not needed
        return QuotaLimits()
    parents = {record.scope: record.parent for record in tx.find(ScopeRecord) if record.parent}
    return QuotaLimits.of(ScopeTree(parents), quota_of_scopes)


def load_admission_pass(
    tx: Transaction,
    quota_limits: QuotaLimits,
    clusters: Collection[str],
    *,
    now: datetime,
    limit: int,
    freed_scopes: Collection[str] | None,
) -> AdmissionPass:
    """Read up to `limit` waiting runs of the given clusters, oldest first, except those whose retry is not due yet.

    Runs waiting for a quota are read separately, so that they cannot crowd out the others: only those that share a
    quota with `freed_scopes`, or all of them if that is None.
    """
    conditions = (*WAITING, Condition("retry_at", "until", now), Condition("cluster", "in", tuple(clusters)))
    if not quota_limits.limits:
        return AdmissionPass(tx.find(RunRecord, *conditions, by="queue_key", limit=limit), quota_limits, Queue({}))
    held = (*conditions, Condition("reason", "=", QUOTA))
    waiting = tx.find(RunRecord, *conditions, Condition("reason", "!=", QUOTA), by="queue_key", limit=limit)
    held_scopes = set() if freed_scopes is not None else {scope for (scope,) in tx.tally(RunRecord, ("scope",), *held)}
    scopes = {run.scope for run in waiting}.union(freed_scopes or (), held_scopes)
    runs, last_read = {run.id: run for run in waiting}, dict[str, str]()
    for limiting in sorted({limiting for scope in scopes for limiting in quota_limits.limiting_scopes(scope)}):
        oldest = tx.find(RunRecord, *held, *quota_limits.within(limiting), by="queue_key", limit=HELD_PER_QUOTA)
        runs |= {run.id: run for run in oldest}
        if len(oldest) == HELD_PER_QUOTA:
            last_read[limiting] = oldest[-1].queue_key
    # Runs whose quota was removed after they began waiting for it.
    if without_quota := tuple(scope for scope in held_scopes if not quota_limits.limiting_scopes(scope)):
        released = tx.find(RunRecord, *held, Condition("scope", "in", without_quota), by="queue_key", limit=limit)
        runs |= {run.id: run for run in released}
    tallies = tx.tally(RunRecord, COUNTED_BY, *ADMITTED, *quota_limits.within(*quota_limits.limits))
    queue = Queue(quota_limits.allowances(tallies))
    return AdmissionPass(sorted(runs.values(), key=lambda run: run.queue_key), quota_limits, queue, last_read)


def fits_quotas(tx: Transaction, quota_limits: QuotaLimits, run: RunRecord) -> bool:
    """Whether a run fits within its quotas. Call it in an exclusive transaction; otherwise, the usage may change."""
    path = quota_limits.limiting_scopes(run.scope)
    if not path:
        return True
    # The first scope of the path contains the others, so its runs are enough to compute the usage in all of them.
    allowances = quota_limits.allowances(tx.tally(RunRecord, COUNTED_BY, *ADMITTED, *quota_limits.within(path[0])))
    return not quotas.find_shortages(quotas.amounts_of(run), [allowances[scope] for scope in path])

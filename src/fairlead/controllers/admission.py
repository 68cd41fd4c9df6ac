"""Admits queued runs if quotas allow it: starts them on local nodes or hands them to clusters."""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from fairlead.controllers.run_state import RunStateWriter
from fairlead.controllers.work_queue import log_failures
from fairlead.lifecycle.attempts import execution_of
from fairlead.manifests.attempts import demand_of, name_of
from fairlead.model.columns import Condition
from fairlead.model.nodes import PodRequest
from fairlead.model.records import PlanRecord, RunRecord
from fairlead.ports import Executor, Executors, Store, Transaction
from fairlead.scheduling import quotas
from fairlead.scheduling.queue_order import (
    ADMITTED,
    COUNTED_BY,
    QUOTA,
    WAITING,
    AdmissionSession,
    Queue,
    QueuedRun,
    QuotaLimits,
)
from fairlead.scheduling.quotas import QuotaShortage

HELD_PER_QUOTA = 50  # waiting runs read per quota, oldest first; if some are admitted, another pass follows

Start = Callable[[RunRecord, Executor], None]  # starts a run that was just claimed
AddToQueue = Callable[[Executor, str], None]  # adds a run to a cluster's work queue


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
        """Whether older runs that this pass did not read might be admitted first. The next pass considers them."""
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


class Admissions:
    """Hands queued runs to executors: local runs one at a time, cluster runs through each cluster's work queue."""

    def __init__(
        self,
        store: Store,
        state_writer: RunStateWriter,
        executors: Executors,
        start: Start,
        add_to_queue: AddToQueue,
    ) -> None:
        self.store, self.state_writer, self.executors = store, state_writer, executors
        self._start, self._add_to_queue = start, add_to_queue
        # Keyed by attempt, because the next attempt may request more memory.
        self._pod_requests: dict[str, PodRequest] = {}

    def admit(self, now: datetime, limit: int, freed_scopes: Collection[str] | None = None) -> None:
        """Admit up to `limit` queued runs in queue order.

        Runs waiting for a quota are considered only if they share one with `freed_scopes`, or always if that is None.
        """
        with self.store.reading() as tx:
            organization = self.state_writer.load_organization(tx)
            executors = {
                scope: executor
                for scope, cluster in organization.clusters.items()
                if (executor := self.executors.find(cluster)) is not None
            }
            admission_pass = _load_admission_pass(
                tx, organization.quota_limits, executors, now=now, limit=limit, freed_scopes=freed_scopes
            )
            local = [run for run in admission_pass.waiting if not executors[run.cluster or ""].has_scheduler]
            # A retried run has been waiting since its retry: the time that earlier attempts ran is not waiting time.
            queued = {
                run.id: QueuedRun(
                    run.id,
                    name_of(run),
                    pod_request,
                    (now - (run.retry_at or run.created_at)).total_seconds(),
                    run.scope,
                )
                for run, pod_request in self._load_pod_requests(tx, local)
            }
        local_ids = {run.id for run in local}
        # Cluster runs without a quota come first: work queues start them while the local runs start one by one.
        for run in admission_pass.waiting:
            if run.id not in local_ids and not admission_pass.has_quota(run):
                self._add_to_queue(executors[run.cluster or ""], run.id)
        # Several local clusters can share this machine. With one session per executor, its capacity is counted once.
        sessions = {
            executor: AdmissionSession(*executor.nodes())  # a local executor has one node: its machine
            for executor in set(executors.values())
            if not executor.has_scheduler
        }
        for run in admission_pass.waiting:
            executor = executors[run.cluster or ""]
            if run.id in queued:
                claimed = self._claim_local(run, admission_pass, queued[run.id], sessions[executor])
                if claimed is not None:
                    self._start(claimed, executor)
            elif run.id not in local_ids and admission_pass.has_quota(run):
                self._admit_to_cluster(run, admission_pass, executor)

    def _claim_local(
        self, run: RunRecord, admission_pass: AdmissionPass, queued: QueuedRun, session: AdmissionSession
    ) -> RunRecord | None:
        """Claim a run if its quotas and the machine's free capacity allow it. Otherwise, save why it waits."""
        lacking = admission_pass.find_shortages(run)
        # A run that would not fit even on the empty machine must not reserve a quota that other runs could use.
        if lacking and session.could_take(queued):
            admission_pass.hold(run, lacking)
            self.state_writer.save_quota_wait(run, lacking)
        elif lacking:
            if run.reason != QUOTA:  # otherwise it fits on another server's machine and waits for its quota there
                self.state_writer.save_wait_reason(run, session.decide(queued))
        elif not admission_pass.has_unread_before(run):
            decision = session.decide(queued)
            if not decision.admitted:
                if admission_pass.count_unplaced(run):
                    self.state_writer.save_wait_reason(run, decision)
            elif (claimed := self.state_writer.claim(run)) is not None:
                admission_pass.count_admitted(run)
                return claimed
        return None

    def _admit_to_cluster(self, run: RunRecord, admission_pass: AdmissionPass, executor: Executor) -> None:
        """Hand a run to its cluster if its quotas allow it. The cluster's scheduler finds a node."""
        if lacking := admission_pass.find_shortages(run):
            admission_pass.hold(run, lacking)
            self.state_writer.save_quota_wait(run, lacking)
        elif not admission_pass.has_unread_before(run):
            # The work queue claims the run later. Until then, the rest of this pass must not use the same quota.
            admission_pass.count_admitted(run)
            self._add_to_queue(executor, run.id)

    def _load_pod_requests(self, tx: Transaction, runs: list[RunRecord]) -> Iterator[tuple[RunRecord, PodRequest]]:
        """Yield runs with their pod requests, which are loaded once per attempt."""
        # Only entries for runs that are still waiting are copied, so the cache does not keep growing.
        cached, self._pod_requests = self._pod_requests, {}
        for run in runs:
            execution = execution_of(run.id, run.attempt)
            if execution in cached:
                self._pod_requests[execution] = cached[execution]
            elif (plan := tx.get(PlanRecord, id=run.id)) is not None:
                # An invalid plan must not block the other runs. Loading it is not part of the
                # step: if the database is down, the pass fails once instead of logging a failure for each run.
                with log_failures(f"reading the pod request of run {run.id}"):
                    self._pod_requests[execution] = demand_of(run, plan).pod_request
            if execution in self._pod_requests:
                yield run, self._pod_requests[execution]


def _load_admission_pass(
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

"""Admits queued runs in fair order: starts them on this machine or hands them to clusters.

Waiting runs that request the same are one group. A pass reads the first run of each group and no other, unless that
one is admitted, so its cost depends on the number of different requests and not on the length of the queue.
"""

from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from typing import Any

from fairlead.controllers.run_state import LEASE, OrganizationCache, RunStateWriter
from fairlead.controllers.work_queue import log_failures
from fairlead.manifests.attempts import demand_of, name_of
from fairlead.model.columns import Condition
from fairlead.model.nodes import Amounts, Node
from fairlead.model.plans import Demand, RunResources
from fairlead.model.records import PlanRecord, RunRecord, ServerRecord
from fairlead.ports import Executor, Executors, Store, Transaction
from fairlead.scheduling import quotas
from fairlead.scheduling.admission import RESERVE_AFTER_SECONDS, AdmissionDecision, AdmissionSession, QueuedRun
from fairlead.scheduling.fair_shares import (
    RUN_COLUMNS,
    FairQueue,
    QueueEntry,
    capacity_for_shares,
    free_for_shares,
    held_amounts,
)
from fairlead.scheduling.queue_order import ADMITTED, COUNTED_BY, GROUPED_BY, QUOTA, WAITING, Queue
from fairlead.scheduling.quotas import QuotaShortage

MAX_GROUPS = 50  # groups read per project; if there are more, those that request more than is free are left out
BATCH = 50  # runs of one group that are read at once
MAX_HANDED_OVER = 1000  # runs that one pass hands over to each cluster; the next pass continues
MAX_SAVED = 20  # reasons that one pass saves
MAX_DEMANDS = 5000  # cached; beyond this, the cache is emptied

Start = Callable[[RunRecord, Executor], None]  # starts a run that was just claimed
AddToQueue = Callable[[Executor, str], None]  # adds a run to a cluster's work queue
LoadDemand = Callable[[Transaction, RunRecord], Demand | None]  # None if the plan cannot be read


@dataclass(frozen=True)
class PassInput:
    """The input of a pass besides the waiting runs."""

    organization: OrganizationCache
    executors: Mapping[str, Executor]  # by the scope of their cluster
    server_id: str
    now: datetime
    reserve_after: float = RESERVE_AFTER_SECONDS


@dataclass(frozen=True)
class AdmissionOutcome:
    """The result for a run: it is admitted, lacks a quota, or waits for the reason in `decision`.

    Without any of these, its plan cannot be read.
    """

    run: RunRecord
    executor: Executor
    decision: AdmissionDecision | None = None
    lacking: Sequence[QuotaShortage] = ()
    is_handed_over: bool = False  # to a cluster, whose scheduler finds a node
    reserved_by: str | None = None

    @property
    def admitted(self) -> bool:
        """Whether the run may start."""
        return self.is_handed_over or (self.decision is not None and self.decision.admitted)

    @property
    def is_unreadable(self) -> bool:
        """Whether the run's plan cannot be read, which says nothing about the other runs of its group."""
        return self.decision is None and not self.lacking and not self.is_handed_over


class AdmissionPass:
    """One pass over the waiting runs, in a read transaction."""

    def __init__(self, tx: Transaction, given: PassInput, load_demand: LoadDemand) -> None:
        self._tx, self._given, self._load_demand = tx, given, load_demand
        self._conditions = (
            *WAITING,
            Condition("retry_at", "until", given.now),
            Condition("cluster", "in", tuple(given.executors)),
        )
        limits = self._quota_limits = given.organization.quota_limits
        self._quota_usage = (
            tx.tally(RunRecord, COUNTED_BY, *ADMITTED, *limits.within(*limits.limits)) if limits.limits else {}
        )
        self._quotas = Queue(limits.allowances(self._quota_usage))
        # Several local clusters can share this machine. With one session per executor, its capacity is counted once.
        self._sessions: dict[Executor, AdmissionSession] = {}
        self._waiting: dict[str, RunRecord] = {}  # runs that were read, by ID
        self._following: dict[tuple[Any, ...], deque[RunRecord]] = {}  # by group: runs read but not yet in the queue
        self._outcomes: dict[str, AdmissionOutcome] = {}  # by run
        self._group_outcomes: dict[tuple[Any, ...], AdmissionOutcome] = {}  # of the last run that was considered
        self._is_live: dict[str, bool] = {}  # by server: whether its reservations count

    def decide(self) -> list[AdmissionOutcome]:
        """Consider the waiting runs in fair order. Returns the outcomes in this order."""
        reserved = self._load_reserved()
        for executor in dict.fromkeys(self._given.executors.values()):
            if not executor.has_scheduler:
                self._sessions[executor] = self._open_session(executor, reserved)
        heads = self._load_heads()
        self._waiting = {run.id: run for run in (*heads, *reserved)}
        queue = FairQueue(self._capacity_of, self._given.organization.queue_policies.weight_of)
        self._count_held(queue)
        # Reserved amounts are free for one run only, so its turn comes first.
        for run in reserved:
            self._consider(run, queue)
        for run in heads:
            queue.add(self._entry_of(run))
        handed_over = Counter[Executor]()
        while (entry := queue.next()) is not None:
            run = self._waiting[entry.run_id]
            executor = self._given.executors[run.cluster or ""]
            # A cluster that takes runs slowly must not delay the runs of others.
            if run.id not in self._outcomes and handed_over[executor] < MAX_HANDED_OVER:
                handed_over[executor] += self._consider(run, queue).is_handed_over
        return list(self._outcomes.values())

    def explain(self, runs: Iterable[RunRecord]) -> list[AdmissionOutcome]:
        """The outcomes of waiting runs that were not considered: those of the last considered run of their groups."""
        explained = []
        for run in runs:
            outcome = self._group_outcomes.get(_group_of(run))
            if outcome is not None and not outcome.admitted and run.id not in self._outcomes:
                explained.append(replace(outcome, run=run, reserved_by=run.reserved_by))
        return explained

    def read_waiting(self, ids: Collection[str]) -> list[RunRecord]:
        """Those of the given runs that wait and may be admitted now."""
        return self._tx.find(RunRecord, *self._conditions, Condition("id", "in", tuple(ids))) if ids else []

    def read_members(self) -> list[RunRecord]:
        """The first runs of each group that waits. Runs further behind get their reason when they come closer."""
        waiting = [outcome.run for outcome in self._group_outcomes.values() if not outcome.admitted]
        return [member for run in waiting for member in self._load_members(run)]

    def _open_session(self, executor: Executor, reserved: Sequence[RunRecord]) -> AdmissionSession:
        given = self._given
        (node,) = executor.nodes()  # a local executor has one node: its machine
        on_machine = (run for run in reserved if given.executors[run.cluster or ""] is executor)
        return AdmissionSession(
            node,
            next(filter(None, map(self._queued, on_machine)), None),
            reserve_after=given.reserve_after,
            load_releases=lambda: load_releases(self._tx, given.server_id, given.now, node, self._load_demand),
        )

    def _load_reserved(self) -> list[RunRecord]:
        own = Condition("reserved_by", "=", self._given.server_id)
        return self._tx.find(RunRecord, *self._conditions, own, by="queue_key")

    def _load_heads(self) -> list[RunRecord]:
        """The first waiting run of each group."""
        read = self._tx.first_of_groups
        heads = read(RunRecord, GROUPED_BY, *self._conditions, by="queue_key", most=MAX_GROUPS)
        counts = Counter(run.scope for run in heads)
        # Projects with many different requests: those that fit must not wait behind those that do not.
        if crowded := tuple(scope for scope, count in counts.items() if count >= MAX_GROUPS):
            fitting = (Condition(column, "<=", free) for column, free in self._largest_free().items())
            conditions = (*self._conditions, Condition("scope", "in", crowded), *fitting)
            heads += read(RunRecord, GROUPED_BY, *conditions, by="queue_key", most=MAX_GROUPS)
        return heads

    def _largest_free(self) -> dict[str, int]:
        """For each column of a run's resources, the largest free amount on any machine of this server."""
        nodes = [session.node for session in self._sessions.values()]
        return {
            column: max((free_for_shares(node)[name] // unit for node in nodes), default=0)
            for column, (name, unit) in RUN_COLUMNS.items()
        }

    def _count_held(self, queue: FairQueue) -> None:
        """Count what running runs hold: on this machine for its projects, of their quotas for projects of clusters."""
        own = Condition("server_id", "=", self._given.server_id)
        on_machine = self._tx.tally(RunRecord, COUNTED_BY, Condition("active", "=", True), own)
        for tallies, is_machine in ((on_machine, True), (self._quota_usage, False)):
            for (scope, *resources), count in tallies.items():
                if (self._session_of(scope) is not None) == is_machine:
                    queue.count_admitted(scope, held_amounts(RunResources(*resources), count))

    @cached_property
    def _clusters(self) -> dict[str, str]:
        """The cluster of each project with waiting runs."""
        return {run.scope: run.cluster or "" for run in self._waiting.values()}

    def _session_of(self, scope: str) -> AdmissionSession | None:
        executor = self._given.executors.get(self._clusters.get(scope, ""))
        return None if executor is None else self._sessions.get(executor)

    def _capacity_of(self, scope: str) -> Amounts:
        """The capacity that counts for a project's share: this machine, or the limits of its quotas on a cluster."""
        session = self._session_of(scope)
        return self._quota_limits.capacity_for_shares(scope) if session is None else capacity_for_shares(session.node)

    def _entry_of(self, run: RunRecord) -> QueueEntry:
        return QueueEntry(run.queue_key, run.scope, run.id, _waited_seconds(run, self._given.now))

    def _consider(self, run: RunRecord, queue: FairQueue) -> AdmissionOutcome:
        """Decide about a run. If it leaves its group, the next run of the group joins the queue."""
        outcome = self._outcomes[run.id] = self._group_outcomes[_group_of(run)] = self._decide(run)
        if outcome.admitted:
            queue.count_admitted(run.scope, held_amounts(resources_of(run)))
        if outcome.admitted or outcome.is_unreadable:
            self._add_next(run, queue)
        return outcome

    def _add_next(self, run: RunRecord, queue: FairQueue) -> None:
        group = _group_of(run)
        if not self._following.get(group):
            self._following[group] = deque(self._load_members(run, after=run.queue_key))
        if self._following[group]:
            following = self._following[group].popleft()
            self._waiting[following.id] = following
            queue.add(self._entry_of(following))

    def _load_members(self, run: RunRecord, after: str = "") -> list[RunRecord]:
        """The first runs of a run's group whose queue key is greater than `after`."""
        group = [Condition(name, "=", value) for name, value in zip(GROUPED_BY, _group_of(run), strict=True)]
        later = Condition("queue_key", ">", after)
        return self._tx.find(RunRecord, *self._conditions, *group, later, by="queue_key", limit=BATCH)

    def _decide(self, run: RunRecord) -> AdmissionOutcome:
        executor, path = self._given.executors[run.cluster or ""], self._quota_limits.limiting_scopes(run.scope)
        amounts = quotas.amounts_of(run)
        lacking = self._quotas.find_shortages(amounts, path)
        session, queued = self._sessions.get(executor), None
        if session is not None and (queued := self._queued(run)) is None:
            return AdmissionOutcome(run, executor)
        if lacking:
            if session is not None and queued is not None:
                if session.reserved is not None and session.reserved.run_id == run.id:
                    session.reserved = None  # otherwise the machine would be idle until the quota is free
                # A run that would not fit even on the empty machine must not reserve a quota that others could use.
                if not session.could_take(queued):
                    decision = session.decide(queued, may_reserve=False)
                    return AdmissionOutcome(run, executor, decision, lacking, reserved_by=self._reserved_elsewhere(run))
            self._quotas.reserve_for_waiting(amounts, path, lacking)
            return AdmissionOutcome(run, executor, lacking=lacking, reserved_by=self._reserved_elsewhere(run))
        if session is None or queued is None:
            self._quotas.add_usage(amounts, path)
            return AdmissionOutcome(run, executor, is_handed_over=True)
        decision = session.decide(queued, may_reserve=self._may_reserve(run))
        if decision.admitted:
            self._quotas.add_usage(amounts, path)
        is_reserved = session.reserved is not None and session.reserved.run_id == run.id
        reserved_by = self._given.server_id if is_reserved else self._reserved_elsewhere(run)
        return AdmissionOutcome(run, executor, decision, reserved_by=reserved_by)

    def _reserved_elsewhere(self, run: RunRecord) -> str | None:
        """The other server that reserves what a run requests. Only that server can release it."""
        return None if run.reserved_by == self._given.server_id else run.reserved_by

    def _queued(self, run: RunRecord) -> QueuedRun | None:
        """The run as the session sees it; None if its plan cannot be read."""
        demand = self._load_demand(self._tx, run)
        if demand is None:
            return None
        waited = _waited_seconds(run, self._given.now)
        return QueuedRun(run.id, name_of(run), demand.pod_request, waited, run.scope, demand.deadline_seconds)

    def _may_reserve(self, run: RunRecord) -> bool:
        """Whether this machine may reserve what a run requests: no other live server does."""
        other = run.reserved_by
        if other is None or other == self._given.server_id:
            return True
        if other not in self._is_live:
            server = self._tx.get(ServerRecord, id=other)
            self._is_live[other] = server is not None and server.seen_at >= self._given.now - LEASE
        return not self._is_live[other]


class Admissions:
    """Hands queued runs to executors: local runs one at a time, cluster runs through each cluster's work queue."""

    def __init__(
        self,
        store: Store,
        state_writer: RunStateWriter,
        executors: Executors,
        start: Start,
        add_to_queue: AddToQueue,
        *,
        reserve_after: float = RESERVE_AFTER_SECONDS,
    ) -> None:
        self.store, self.state_writer, self.executors = store, state_writer, executors
        self._start, self._add_to_queue, self._reserve_after = start, add_to_queue, reserve_after
        # One entry per request and memory, because the next attempt may request more memory.
        self._demands: dict[tuple[str, int], Demand] = {}

    def admit(self, now: datetime, changed: Collection[str] = (), *, update_reasons: bool = True) -> bool:
        """Admit waiting runs, and save the reasons of those in `changed`; with `update_reasons`, of all groups.

        Returns whether the next pass must save reasons of groups: each takes a transaction, and new runs must not wait
        for hundreds of them.
        """
        with self.store.reading() as tx:
            organization = self.state_writer.load_organization(tx)
            executors = {
                scope: executor
                for scope, cluster in organization.clusters.items()
                if (executor := self.executors.find(cluster)) is not None
            }
            given = PassInput(organization, executors, self.state_writer.server_id, now, self._reserve_after)
            admission_pass = AdmissionPass(tx, given, self._load_demand)
            outcomes = admission_pass.decide()
            explained = admission_pass.explain(admission_pass.read_waiting(changed))
            members = admission_pass.explain(admission_pass.read_members()) if update_reasons else []
        # Cluster runs come first: work queues start them while the local runs start one by one.
        for outcome in outcomes:
            if outcome.is_handed_over:
                self._add_to_queue(outcome.executor, outcome.run.id)
        for outcome in outcomes:
            if outcome.admitted and not outcome.is_handed_over:
                claimed = self.state_writer.claim(outcome.run)
                if claimed is not None:
                    self._start(claimed, outcome.executor)
        saved, is_limited = 0, False
        for outcome in {outcome.run.id: outcome for outcome in (*outcomes, *explained, *members)}.values():
            # The next pass depends on the reservation, so it is always saved.
            if saved >= MAX_SAVED and outcome.reserved_by == outcome.run.reserved_by:
                is_limited = True
            elif not outcome.admitted:
                saved += self._save_reason(outcome)
        return is_limited and bool(members)

    def _save_reason(self, outcome: AdmissionOutcome) -> bool:
        """Save why a run waits. Returns whether that has changed."""
        run, decision, lacking = outcome.run, outcome.decision, outcome.lacking
        if decision is None and lacking:
            return self.state_writer.save_quota_wait(run, lacking, outcome.reserved_by)
        # Without a quota, a run that fits no machine says so. With one, it may fit another server's machine.
        if decision is not None and not (lacking and run.reason == QUOTA):
            return self.state_writer.save_wait_reason(run, decision, outcome.reserved_by)
        return False

    def _load_demand(self, tx: Transaction, run: RunRecord) -> Demand | None:
        """The demand of a run, loaded once for all runs with the same request; None if its plan cannot be read."""
        if len(self._demands) > MAX_DEMANDS:
            self._demands = {}
        key = run.request_key or run.id, run.mem_bytes
        if key not in self._demands and (plan := tx.get(PlanRecord, id=run.id)) is not None:
            # An invalid plan must not block the other runs. Loading it is not part of the step: if the database is
            # down, the pass fails once instead of logging a failure for each run.
            with log_failures(f"reading the demand of run {run.id}"):
                self._demands[key] = demand_of(run, plan)
        return self._demands.get(key)


def resources_of(run: RunRecord) -> RunResources:
    """The resources of a run's current attempt, as stored in its record."""
    return RunResources(*(getattr(run, name) for name in RunResources._fields))


def load_releases(
    tx: Transaction, server_id: str, now: datetime, node: Node, load_demand: LoadDemand
) -> dict[str, float]:
    """The running runs of a machine that have a deadline, with the seconds until then."""
    running = tuple({pod.run_id for pod in node.pods if pod.run_id})
    own = (Condition("active", "=", True), Condition("server_id", "=", server_id), Condition("id", "in", running))
    releases: dict[str, float] = {}
    for run in tx.find(RunRecord, *own) if running else ():
        demand = load_demand(tx, run)
        if demand is not None and demand.deadline_seconds is not None:
            # A run that has not started yet has all of its time left.
            used = 0.0 if run.started_at is None else (now - run.started_at).total_seconds()
            releases[run.id] = max(demand.deadline_seconds - used, 0.0)
    return releases


def _group_of(run: RunRecord) -> tuple[Any, ...]:
    """The values that all runs of a group have in common."""
    return tuple(getattr(run, name) for name in GROUPED_BY)


def _waited_seconds(run: RunRecord, now: datetime) -> float:
    """How long a run has been waiting. A retried run has been waiting since its retry: earlier attempts ran."""
    return (now - (run.retry_at or run.created_at)).total_seconds()

"""The place of a run in the queue: the runs ahead, the reservation, and the quota that is left at its position."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from fairlead.controllers.admission import MAX_GROUPS, load_releases, resources_of
from fairlead.lifecycle.attempts import is_paused
from fairlead.manifests.attempts import demand_of, name_of
from fairlead.model.columns import Condition
from fairlead.model.names import run_name
from fairlead.model.nodes import Amounts, NodeTable, PodRequest
from fairlead.model.plans import Demand, Fit, FitReport, RunResources
from fairlead.model.records import PlanRecord, RunRecord
from fairlead.model.runs import State
from fairlead.ports import Executor, Executors, Transaction
from fairlead.scheduling import quotas
from fairlead.scheduling.admission import WAITING_FOR_TURN, AdmissionSession, QueuedRun
from fairlead.scheduling.evaluation import LATER, NOW
from fairlead.scheduling.fair_shares import FairQueue, QueueEntry, capacity_for_shares, held_amounts
from fairlead.scheduling.filters import place
from fairlead.scheduling.queue_order import ADMITTED, COUNTED_BY, GROUPED_BY, QUOTA, WAITING, Queue, queue_key
from fairlead.scheduling.quotas import Allowance, QuotaAmounts, QuotaHolder
from fairlead.services.transactions.unit_of_work import UnitOfWork

MAX_HOLDERS = 200  # runs read for one explanation, which is approximate if there are more
MAX_AHEAD = 200  # waiting runs per project that are put in order; beyond this, a position is approximate
MAX_NAMED = 5
NEW = ""  # the ID of a run that has not been submitted yet


@dataclass(frozen=True)
class RunAhead:
    """A visible run that is ahead in the queue."""

    id: str
    name: str
    scope: str


@dataclass(frozen=True)
class QueuePlace:
    """A run's place in its queue: the queue, the number of runs ahead, and the first of them that are visible."""

    description: str
    ahead: int
    runs: list[RunAhead]


@dataclass(frozen=True)
class Reservation:
    """The reservation of a machine for a waiting run, and the deadlines of its running runs."""

    queued: QueuedRun
    is_visible: bool  # whether the caller may know the run's name
    releases: Mapping[str, float]

    def left(self, nodes: NodeTable) -> NodeTable:
        """The machine as other runs may use it."""
        left = nodes.copy()
        for node in nodes:
            # Without the ID and name: the run does not use anything yet, and nobody can wait for its end.
            left.put(place(self.queued.pod_request, node))
        return left

    def find_conflict(
        self, pod_request: PodRequest, nodes: NodeTable, deadline_seconds: float | None = None
    ) -> str | None:
        """A message if a run would fit but must not use reserved amounts; None if it may start."""
        (node,) = nodes
        scope = self.queued.scope if self.is_visible else NEW
        run = QueuedRun(NEW, NEW, pod_request, scope=scope, deadline_seconds=deadline_seconds)
        decision = AdmissionSession(node, self.queued, load_releases=lambda: self.releases).decide(run)
        return decision.message if decision.reason == WAITING_FOR_TURN else None

    def apply(self, fit: Fit, demand: Demand, nodes: NodeTable) -> Fit:
        """Change the verdict "now" to "later" if the run would use reserved amounts."""
        if fit.verdict != NOW:
            return fit
        conflict = self.find_conflict(demand.pod_request, nodes, demand.deadline_seconds)
        if conflict is None:
            return fit
        waiting = tuple({**node, "fits": False, "reasons": [conflict]} for node in fit.nodes)
        return replace(fit, verdict=LATER, reasons=(conflict,), nodes=waiting, counts=_count_as_later(fit.counts))

    def apply_to_report(self, report: FitReport, demand: Demand, nodes: NodeTable, left: FitReport) -> FitReport:
        """Apply the reservation to a fit report. `left` is the report on the machine as other runs may use it."""
        if report.verdict != NOW:
            return report
        if left.verdict == NOW:
            return replace(report, room=left.room)
        conflict = self.find_conflict(demand.pod_request, nodes, demand.deadline_seconds)
        # Without a conflict, the deadline of the run allows it to use reserved amounts.
        if conflict is None:
            return replace(report, room=1)
        waiting = [replace(node, fits=False, reasons=[conflict]) if node.fits else node for node in report.nodes]
        counts = _count_as_later(report.counts)
        return replace(report, verdict=LATER, reasons=[conflict], room=0, nodes=waiting, counts=counts)


def load_reservation(
    unit: UnitOfWork, executors: Executors, executor: Executor | None, run_id: str | None = None
) -> Reservation | None:
    """Return the reservation on this server's machine, unless it is for `run_id`; None for other executors."""
    if executor is None or executor.has_scheduler:
        return None
    reserved = unit.tx.find(RunRecord, *WAITING, Condition("reserved_by", "=", executors.server_id), limit=1)
    demand = _load_demand(unit.tx, reserved[0]) if reserved and reserved[0].id != run_id else None
    if demand is None:
        return None
    run, (node,) = reserved[0], executor.nodes()
    queued = QueuedRun(run.id, name_of(run), demand.pod_request, scope=run.scope)
    releases = load_releases(unit.tx, executors.server_id, unit.now, node, _load_demand)
    return Reservation(queued, unit.permissions.sees(run.scope), releases)


def _count_as_later(counts: Mapping[str, int]) -> dict[str, int]:
    return {**counts, NOW: 0, LATER: counts.get(NOW, 0) + counts.get(LATER, 0)}


def entry_of(unit: UnitOfWork, run: RunRecord) -> QueueEntry:
    """The entry of a waiting run in the queue."""
    return QueueEntry(run.queue_key, run.scope, run.id, (unit.now - (run.retry_at or run.created_at)).total_seconds())


def next_entry(unit: UnitOfWork, scope: str, priority: int) -> QueueEntry:
    """The entry that a run submitted now would get."""
    return QueueEntry(queue_key(unit.tx.now(unit.now), unit.make_id(), priority), scope, NEW)


def load_allowances(
    unit: UnitOfWork,
    scope: str,
    requested: QuotaAmounts | None = None,
    *,
    own: QueueEntry | None = None,
    excluding: str | None = None,
) -> tuple[Allowance, ...]:
    """Return the quotas that apply to a run in a scope, after reservations for runs that wait for them.

    `own` limits these to the runs ahead of this entry. `excluding` is the ID of a run to ignore because it will be
    replaced. If the quotas cannot cover `requested`, the visible runs that use them are included.
    """
    quota_limits = unit.organization.quota_limits
    path = quota_limits.limiting_scopes(scope)
    if not path:
        return ()
    # The first scope contains the others, so these conditions select all runs that count toward the quotas.
    within = (*quota_limits.within(path[0]), *([Condition("id", "!=", excluding)] if excluding else []))
    usage = unit.tx.tally(RunRecord, COUNTED_BY, *ADMITTED, *within)
    waiting = Queue(quota_limits.allowances(usage))
    queue = FairQueue(quota_limits.capacity_for_shares, unit.organization.queue_policies.weight_of)
    _count_held(queue, usage)
    held = (*WAITING, Condition("reason", "=", QUOTA), *within)
    heads = {
        run.id: run
        for run in unit.tx.first_of_groups(RunRecord, GROUPED_BY, *held, by="queue_key", most=MAX_GROUPS)
        if own is None or run.id != own.run_id
    }
    for waiting_entry in (*(entry_of(unit, run) for run in heads.values()), *([own] if own else [])):
        queue.add(waiting_entry)
    while (entry := queue.next()) is not None and entry != own:
        run = heads[entry.run_id]
        load, above = quotas.amounts_of(run), quota_limits.limiting_scopes(run.scope)
        if lacking := waiting.find_shortages(load, above):
            waiting.reserve_for_waiting(load, above, lacking)
        else:  # the run will be admitted next, or could be admitted without the excluded run
            waiting.reserve(load, above)
            queue.count_admitted(run.scope, held_amounts(resources_of(run)))
    allowances = tuple(waiting.allowances[limiting] for limiting in path)
    if requested is not None and quotas.find_shortages(requested, allowances):
        return _add_holders(unit, allowances)
    return allowances


def find_place(unit: UnitOfWork, executors: Executors, run: RunRecord) -> QueuePlace | None:
    """Return a run's place in the queue of the first exhausted quota or of its cluster; None if it is in no queue."""
    if run.state != State.QUEUED or run.server_id is not None or is_paused(run, unit.now):
        return None
    conditions: tuple[Condition, ...] = (Condition("cluster", "=", run.cluster),)
    description = f"in the queue of {run.cluster or 'no cluster'}"
    load = quotas.amounts_of(run)
    lacking = quotas.find_shortages(load, load_allowances(unit, run.scope, load, own=entry_of(unit, run)))
    if run.reason == QUOTA and lacking:
        scope = lacking[0].allowance.scope
        conditions = (Condition("reason", "=", QUOTA), *unit.organization.quota_limits.within(scope))
        description = f"in the queue for the quota of {scope}"
    waiting = (*WAITING, Condition("retry_at", "until", unit.now), *conditions)
    ahead, count = _list_ahead(unit, executors, run, waiting)
    visible = [each for each in ahead if unit.permissions.sees(each.scope)][:MAX_NAMED]
    named = [RunAhead(each.id, run_name(each.function, each.id), each.scope) for each in visible]
    return QueuePlace(description, count, named)


def _list_ahead(
    unit: UnitOfWork, executors: Executors, run: RunRecord, waiting: Sequence[Condition]
) -> tuple[list[RunRecord], int]:
    """The first waiting runs ahead of a run, in order, and the number of all of them.

    The order is that in which they would start if each of them fitted when its turn comes.
    """
    if run.reserved_by is not None:
        return [], 0
    queue = _open_queue(unit, executors, run)
    scopes = [scope for (scope,) in unit.tx.tally(RunRecord, ("scope",), *waiting)]
    before = Condition("queue_key", "<", run.queue_key)
    own_ahead = unit.tx.count(RunRecord, *waiting, Condition("scope", "=", run.scope), before)
    records: dict[str, RunRecord] = {}
    for scope in scopes:
        limits = (Condition("scope", "=", scope), *([before] if scope == run.scope else []))
        found = unit.tx.find(RunRecord, *waiting, *limits, by="queue_key", limit=MAX_AHEAD)
        records |= {each.id: each for each in found if each.id != run.id}
    for each in (*records.values(), run):
        queue.add(entry_of(unit, each))
    ahead = [each for each in records.values() if each.reserved_by is not None]
    while (entry := queue.next()) is not None and entry.run_id != run.id:
        each = records[entry.run_id]
        if each.reserved_by is None:
            ahead.append(each)
        queue.count_admitted(each.scope, held_amounts(resources_of(each)))
    # Runs of the same project that were not read are ahead, too.
    unread = max(own_ahead - MAX_AHEAD, 0)
    return ahead, len(ahead) + unread


def _open_queue(unit: UnitOfWork, executors: Executors, run: RunRecord) -> FairQueue:
    """The shares that count for a run: those of this machine, or those of its quotas."""
    cluster = unit.organization.clusters.get(run.cluster or "")
    executor, weight_of = executors.find(cluster), unit.organization.queue_policies.weight_of
    if executor is not None and not executor.has_scheduler:
        (node,) = executor.nodes()
        capacity = capacity_for_shares(node)
        queue = FairQueue(lambda _scope: capacity, weight_of)
        own = Condition("server_id", "=", executors.server_id)
        _count_held(queue, unit.tx.tally(RunRecord, COUNTED_BY, Condition("active", "=", True), own))
        return queue
    quota_limits = unit.organization.quota_limits
    queue = FairQueue(quota_limits.capacity_for_shares, weight_of)
    if path := quota_limits.limiting_scopes(run.scope):
        _count_held(queue, unit.tx.tally(RunRecord, COUNTED_BY, *ADMITTED, *quota_limits.within(path[0])))
    return queue


def _count_held(queue: FairQueue, usage: Mapping[tuple[str | int, ...], int]) -> None:
    for (scope, *resources), count in usage.items():
        amounts: Amounts = held_amounts(RunResources(*map(int, resources)), count)
        queue.count_admitted(str(scope), amounts)


def _load_demand(tx: Transaction, run: RunRecord) -> Demand | None:
    plan = tx.get(PlanRecord, id=run.id)
    return None if plan is None else demand_of(run, plan)


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

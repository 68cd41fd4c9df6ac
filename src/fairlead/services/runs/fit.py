"""Checks whether runs fit, explains why they wait, and suggests changes, limited to what the caller may see and do."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import cache
from itertools import islice
from typing import NamedTuple

from fairlead.errors import NotFound, Unavailable
from fairlead.lifecycle.attempts import execution_of, is_paused
from fairlead.manifests.attempts import demand_of
from fairlead.model import explanations
from fairlead.model.columns import Condition
from fairlead.model.names import run_name
from fairlead.model.nodes import NodeTable, QueuePosition
from fairlead.model.parsing import short_repr
from fairlead.model.plans import Fit, FitReport, Suggestion
from fairlead.model.records import JSON, EventRecord, PlanRecord, RunRecord
from fairlead.model.requests import RunRequest
from fairlead.model.runs import State
from fairlead.model.scopes import Permission
from fairlead.planning import fit_reports, suggestions
from fairlead.planning.plan import plan_run
from fairlead.planning.queue_messages import describe_queue_position
from fairlead.planning.suggestions import OtherProject
from fairlead.ports import Executor, Executors
from fairlead.scheduling import evaluation, quotas
from fairlead.scheduling.evaluation import LATER, NOW
from fairlead.scheduling.queue_order import (
    ADMITTED,
    COUNTED_BY,
    PATIENCE_SECONDS,
    QUOTA,
    WAITING,
    WAITING_FOR_TURN,
    Queue,
    queue_key,
)
from fairlead.scheduling.quotas import Allowance, QuotaAmounts, QuotaHolder
from fairlead.services.catalog.snapshots import PlanningContext, Snapshots, load_compute_resources
from fairlead.services.runs.executions import Executions, find_run, find_visible_nodes, is_unscheduled
from fairlead.services.runs.functions import resolve_function
from fairlead.services.transactions.unit_of_work import Call, UnitOfWork, UnitOfWorkFactory

MAX_WAITING, MAX_HOLDERS = 200, 200  # runs read for one explanation, which is approximate if there are more

MAX_CLUSTERS = 5  # for each one, the request is planned again and evaluated on all nodes

SCHEDULER_PREFIX = "the scheduler says: "  # precedes the cluster's own message in a run's message
MAX_NODES = 5


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


class Suggestions:
    """Finds suggestions for runs that do not fit now."""

    def __init__(self, snapshots: Snapshots, executors: Executors) -> None:
        self.snapshots, self.executors = snapshots, executors

    def find(
        self,
        unit: UnitOfWork,
        scope: str,
        request: RunRequest,
        context: PlanningContext,
        nodes: NodeTable | None,
        *,
        allowances: Sequence[Allowance] = (),
        queued_allowances: Sequence[Allowance] | None = None,
    ) -> tuple[Suggestion, ...]:
        """Return changes to a request that would make it fit now. Empty if it already fits or the nodes are unknown.

        `allowances` are the quotas for a run submitted now, and `queued_allowances` those for the run that is already
        waiting.
        """
        if nodes is None:
            return ()
        # Every available compute resource is a candidate, not only those that the request names.
        available = load_compute_resources(unit, scope)
        named = context.snapshot.compute_resources
        elsewhere = list(self._find_other_projects(unit, scope, request))
        return suggestions.find_suggestions(
            request,
            replace(context.snapshot, compute_resources={**named, **available}),
            nodes,
            profiles=sorted(available),
            other_projects=elsewhere,
            allowances=allowances,
            queued_allowances=queued_allowances,
        )

    def apply_queue_order(self, unit: UnitOfWork, context: PlanningContext, fit: Fit, queue_key: str) -> Fit:
        """Change the verdict "now" to "later" if an earlier run has waited a long time and must start first.

        This applies only to executors without a scheduler, which start runs in queue order.
        """
        cluster = context.snapshot.cluster
        executor = self.executors.find(cluster)
        if fit.verdict != NOW or executor is None or executor.has_scheduler:
            return fit
        threshold = unit.now - timedelta(seconds=PATIENCE_SECONDS)
        waiting = unit.tx.find(
            RunRecord,
            *WAITING,
            Condition("cluster", "=", cluster.scope),
            Condition("reason", "=", "Unschedulable"),  # it was considered and did not fit, so it blocks later runs
            Condition("created_at", "<", threshold),
            Condition("retry_at", "until", threshold),  # a retried attempt has been waiting only since then
            Condition("queue_key", "<", queue_key),
            limit=1,
        )
        return replace(fit, verdict=LATER, reasons=(WAITING_FOR_TURN,)) if waiting else fit

    def _find_other_projects(self, unit: UnitOfWork, scope: str, request: RunRequest) -> Iterator[OtherProject]:
        """Yield one project from each other cluster where the caller may run workloads."""
        tree = unit.organization.tree
        others = [cluster for cluster in unit.organization.clusters if cluster != tree.cluster_of(scope)]
        projects = ([f"project/{name}" for name in tree.projects_in(cluster)] for cluster in others)
        allowed = (
            [project for project in scopes if unit.permissions.may(Permission.RUN, project)] for scopes in projects
        )
        for project in islice((scopes[0] for scopes in allowed if scopes), MAX_CLUSTERS):
            context = self.snapshots.load(unit, project, request)
            nodes = find_visible_nodes(unit, self.executors.find(context.snapshot.cluster))
            if nodes is not None:
                yield OtherProject(context.snapshot.project, context.snapshot, nodes, load_allowances(unit, project))


class FitChecks:
    """Checks whether requests fit, without submitting them."""

    def __init__(self, units: UnitOfWorkFactory, snapshots: Snapshots, executors: Executors) -> None:
        self.units, self.snapshots, self.executors = units, snapshots, executors
        self.suggestions = Suggestions(snapshots, executors)

    def check(
        self,
        call: Call,
        project: str,
        request: RunRequest,
        add_nodes: Sequence[str] = (),
        without: Sequence[str] = (),
        *,
        all_nodes: bool = False,
    ) -> FitReport:
        """Check whether a request fits. Raises `RequestRejected` if a node in `without` or `add_nodes` is invalid."""
        scope = f"project/{project}"
        with self.units.reading(call) as unit:
            unit.require(Permission.VIEW, scope, scope)
            request = resolve_function(unit, scope, request)
            context = self.snapshots.load(unit, scope, request)
            # The request is planned without nodes, so that "never fits" is a result, not a violation.
            plan = plan_run(request, context.snapshot, unit.make_id())
            requested = QuotaAmounts() if plan.demand is None else QuotaAmounts.of(plan.demand.resources)
            allowances = () if plan.demand is None else load_allowances(unit, scope, requested)
            cluster = context.snapshot.cluster
            executor = self.executors.find(cluster)
            table = find_visible_nodes(unit, executor)
            if table is None:
                reason = f"no server executes the runs of {cluster.scope}"
                if executor is not None:
                    reason = f"the nodes of {cluster.scope} are currently unavailable"
                quota_reasons = quotas.apply_quotas(Fit(), requested, allowances).reasons
                return fit_reports.report_violations(plan, *quota_reasons, reason)
            hypothetical = fit_reports.simulate_cluster(table, add_nodes, without, cluster=cluster)
            report = fit_reports.build_report(
                plan, hypothetical, autoscaled=cluster.autoscaled, all_nodes=all_nodes, allowances=allowances
            )
            nodes = hypothetical.table
            suggestions = self.suggestions.find(unit, scope, request, context, nodes, allowances=allowances)
            return replace(report, suggestions=list(suggestions))


def find_queue_position(executor: Executor | None, run: RunRecord) -> QueuePosition | None:
    """Return a run's position in its cluster's queue; None if it is unknown or the run is not in a queue."""
    if executor is None or run.server_id is None or run.state != State.PENDING:
        return None
    try:
        observation = executor.observe(execution_of(run.id, run.attempt))
    except Unavailable:  # the rest of the explanation does not need the cluster
        return None
    if observation is None or observation.queue_position is None:
        return None
    return observation.queue_position()


def describe_position(unit: UnitOfWork, queue_position: QueuePosition | None) -> list[str]:
    """Describe a queue position in sentences, with the names of visible runs only."""
    # A queue may contain thousands of runs from a few projects.
    sees = cache(unit.sees_project)
    return [] if queue_position is None else list(describe_queue_position(queue_position, sees))


@dataclass(frozen=True)
class RunExplanation:
    """Why a run is in its state: a message, details, whether it would fit now, and its events.

    `ahead` is the number of earlier runs in the queue of its quota or cluster. `position` is its own position,
    starting at 1, or 0 if it is not in a queue.
    """

    state: str
    reason: str
    message: str
    details: list[str]
    ahead: int
    position: int
    fit: Fit
    events: list[EventRecord]


class Explanations:
    """Explains why runs are in their current state and whether they would fit now."""

    def __init__(self, executions: Executions, snapshots: Snapshots) -> None:
        self.executions, self.units, self.snapshots = executions, executions.units, snapshots
        self.suggestions = Suggestions(snapshots, executions.executors)

    def why(self, call: Call, run_id: str) -> RunExplanation:
        """Explain the state of a run. For a waiting run, this includes current numbers and suggestions."""
        executor, run = self.executions.find_executor(call, run_id)
        queue_position = find_queue_position(executor, run)
        with self.units.reading(call) as unit:
            # A free node does not help until the cluster's queue admits the run.
            fit = Fit() if queue_position is not None else self._evaluate_fit(unit, run)
            queue = _find_queue(unit, run)
            ahead = (
                0
                if queue is None
                else unit.tx.count(RunRecord, *WAITING, *queue.conditions, Condition("queue_key", "<", run.queue_key))
            )
            events = unit.tx.find(EventRecord, Condition("run_id", "=", run_id), by="revision")
            queue_details = describe_position(unit, queue_position)
        message = "; ".join(fit.reasons) or run.message
        position = 0 if queue is None else ahead + 1
        in_queue = "" if queue is None else f"number {position} {queue.description}"
        details = list(_describe_details(run, fit, message, in_queue))
        # The run has left the server's queue, so its position in the cluster's queue is returned instead.
        if queue_position is not None and queue_position.pending:
            ahead, position = len(queue_position.ahead), len(queue_position.ahead) + 1
        return RunExplanation(run.state, run.reason, message, [*details, *queue_details], ahead, position, fit, events)

    def explain(self, call: Call, run_id: str) -> JSON:
        """Return the plan of a run. For a waiting run, this includes its current fit."""
        with self.units.reading(call) as unit:
            run = find_run(unit, run_id)
            record = unit.tx.get(PlanRecord, id=run_id)
            if record is None:
                raise NotFound(f"run {short_repr(run_id)} does not exist")
            return {**record.plan, "fit": explanations.fit_data(self._evaluate_fit(unit, run))}

    def _evaluate_fit(self, unit: UnitOfWork, run: RunRecord) -> Fit:
        """Evaluate whether a waiting run could start now."""
        record = unit.tx.get(PlanRecord, id=run.id)
        if record is None or not is_unscheduled(run) or is_paused(run, unit.now):
            return Fit()
        request = RunRequest.model_validate(record.request)
        context = self.snapshots.load(unit, run.scope, request)
        nodes = find_visible_nodes(unit, self.suggestions.executors.find(context.snapshot.cluster))
        fit, load = Fit(), quotas.amounts_of(run)
        if nodes is not None:
            nodes = nodes.without(run.id)  # some of its pods may already be scheduled
            pod_request = demand_of(run, record).pod_request
            fit = evaluation.evaluate(pod_request, nodes, autoscaled=context.snapshot.cluster.autoscaled)
        # A run assigned to a server already counts toward its quotas. A changed run would go to the end of the queue.
        queued = () if run.server_id is not None else load_allowances(unit, run.scope, load, before=run.queue_key)
        last = load_allowances(unit, run.scope, before=queue_key(unit.make_id(), run.priority), excluding=run.id)
        fit = self.suggestions.apply_queue_order(unit, context, quotas.apply_quotas(fit, load, queued), run.queue_key)
        if fit.verdict == evaluation.NOW:
            return fit
        suggestions = self.suggestions.find(
            unit, run.scope, request, context, nodes, allowances=last, queued_allowances=queued
        )
        return replace(fit, suggestions=suggestions)


class _QueueFilter(NamedTuple):
    """Conditions that select the runs in a queue, with a description of the queue."""

    conditions: tuple[Condition, ...]
    description: str


def _find_queue(unit: UnitOfWork, run: RunRecord) -> _QueueFilter | None:
    """Return the queue in which a run is waiting: the queue of the first exhausted quota, or its cluster's queue."""
    if run.state != State.QUEUED or run.server_id is not None or is_paused(run, unit.now):
        return None
    load = quotas.amounts_of(run)
    lacking = quotas.find_shortages(load, load_allowances(unit, run.scope, load, before=run.queue_key))
    if run.reason == QUOTA and lacking:
        scope = lacking[0].allowance.scope
        within = unit.organization.quota_limits.within(scope)
        return _QueueFilter((Condition("reason", "=", QUOTA), *within), f"in the queue for the quota of {scope}")
    return _QueueFilter((Condition("cluster", "=", run.cluster),), f"in the queue of {run.cluster or 'no cluster'}")


def _describe_details(run: RunRecord, fit: Fit, message: str, in_queue: str) -> Iterator[str]:
    """Describe the cluster scheduler's message, the position in the queue, and the best nodes."""
    if run.state == State.PENDING and run.message != message:
        scheduler_message = run.message.partition(SCHEDULER_PREFIX)[2]
        yield f"{SCHEDULER_PREFIX}{scheduler_message}" if scheduler_message else run.message
    if in_queue:
        yield f"it is {in_queue}" + (f", with priority {run.priority}" if run.priority else "")
    if fit.verdict in (evaluation.LATER, evaluation.NEVER) and sum(fit.counts.values()) > 1 and not fit.counts["now"]:
        counts = fit.counts
        yield f"{counts['later']} of {sum(counts.values())} nodes could run it once their current pods have ended"
        for node in fit.nodes[:MAX_NODES]:
            yield from node["reasons"]

"""Checks whether runs fit, explains why they wait, and suggests changes, limited to what the caller may see and do."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import islice

from fairlead.errors import NotFound, Unavailable
from fairlead.lifecycle.attempts import execution_of, is_paused
from fairlead.manifests.attempts import demand_of
from fairlead.model import explanations
from fairlead.model.columns import Condition
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
from fairlead.scheduling.quotas import Allowance, QuotaAmounts
from fairlead.services.catalog.snapshots import PlanningContext, Snapshots, check_cluster, load_compute_resources
from fairlead.services.runs.executions import Executions, find_run, find_visible_nodes, is_unscheduled
from fairlead.services.runs.functions import resolve_function
from fairlead.services.runs.queue import (
    QueuePlace,
    RunAhead,
    entry_of,
    find_place,
    load_allowances,
    load_reservation,
    next_entry,
)
from fairlead.services.transactions.unit_of_work import Call, UnitOfWork, UnitOfWorkFactory

MAX_CLUSTERS = 5  # for each one, the request is planned again and evaluated on all nodes

SCHEDULER_PREFIX = "the scheduler says: "  # precedes the cluster's own message in a run's message
MAX_NODES = 5


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
            executor = self.executors.find(context.snapshot.cluster)
            nodes = find_visible_nodes(unit, executor)
            if nodes is not None:
                reservation = load_reservation(unit, self.executors, executor)
                left = nodes if reservation is None else reservation.left(nodes)
                yield OtherProject(context.snapshot.project, context.snapshot, left, load_allowances(unit, project))


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
            if missing := tuple(check_cluster(unit.organization, scope)):
                return fit_reports.report_violations(replace(plan, violations=(*plan.violations, *missing)))
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
            reservation = load_reservation(unit, self.executors, executor)
            if reservation is not None and plan.demand is not None:
                on_left = fit_reports.simulate_cluster(reservation.left(table), add_nodes, without, cluster=cluster)
                left = fit_reports.build_report(plan, on_left, autoscaled=cluster.autoscaled, allowances=allowances)
                report = reservation.apply_to_report(report, plan.demand, table, left)
                nodes = on_left.table
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

    `ahead` is the number of runs ahead in the queue of its quota or cluster, and `ahead_runs` are the first of them
    that are visible. `position` is its own position, starting at 1, or 0 if it is not in a queue.
    """

    state: str
    reason: str
    message: str
    details: list[str]
    ahead: int
    ahead_runs: list[RunAhead]
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
            place = find_place(unit, self.executions.executors, run)
            events = unit.tx.find(EventRecord, Condition("run_id", "=", run_id), by="revision")
            queue_details = describe_position(unit, queue_position)
        message = "; ".join(fit.reasons) or run.message
        details = [*_describe_details(run, fit, message, place), *queue_details]
        ahead, position = (0, 0) if place is None else (place.ahead, place.ahead + 1)
        # The run has left the server's queue, so its position in the cluster's queue is returned instead.
        if queue_position is not None and queue_position.pending:
            ahead, position = len(queue_position.ahead), len(queue_position.ahead) + 1
        named = [] if place is None else place.runs
        return RunExplanation(run.state, run.reason, message, details, ahead, named, position, fit, events)

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
        executor = self.suggestions.executors.find(context.snapshot.cluster)
        nodes = find_visible_nodes(unit, executor)
        fit, load, demand = Fit(), quotas.amounts_of(run), demand_of(run, record)
        if nodes is not None:
            nodes = nodes.without(run.id)  # some of its pods may already be scheduled
            fit = evaluation.evaluate(demand.pod_request, nodes, autoscaled=context.snapshot.cluster.autoscaled)
        # A run assigned to a server already counts toward its quotas. A changed run would go to the end of the queue.
        own = entry_of(unit, run)
        queued = () if run.server_id is not None else load_allowances(unit, run.scope, load, own=own)
        last_entry = next_entry(unit, run.scope, run.priority)
        last = load_allowances(unit, run.scope, own=last_entry, excluding=run.id)
        fit = quotas.apply_quotas(fit, load, queued)
        reservation = load_reservation(unit, self.suggestions.executors, executor, run.id)
        if reservation is not None and nodes is not None:
            fit = reservation.apply(fit, demand, nodes)
            nodes = reservation.left(nodes)
        if fit.verdict == evaluation.NOW:
            return fit
        suggestions = self.suggestions.find(
            unit, run.scope, request, context, nodes, allowances=last, queued_allowances=queued
        )
        return replace(fit, suggestions=suggestions)


def _describe_details(run: RunRecord, fit: Fit, message: str, place: QueuePlace | None) -> Iterator[str]:
    """Describe the cluster scheduler's message, the place in the queue, and the best nodes."""
    if run.state == State.PENDING and run.message != message:
        scheduler_message = run.message.partition(SCHEDULER_PREFIX)[2]
        yield f"{SCHEDULER_PREFIX}{scheduler_message}" if scheduler_message else run.message
    if place is not None:
        in_queue = f"it is number {place.ahead + 1} {place.description}"
        yield in_queue + (f", with priority {run.priority}" if run.priority else "")
    if run.reserved_by is not None:
        yield "what it requests is reserved for it: other runs may use it only if they end in time"
    if fit.verdict in (evaluation.LATER, evaluation.NEVER) and sum(fit.counts.values()) > 1 and not fit.counts["now"]:
        counts = fit.counts
        yield f"{counts['later']} of {sum(counts.values())} nodes could run it once their current pods have ended"
        for node in fit.nodes[:MAX_NODES]:
            yield from node["reasons"]

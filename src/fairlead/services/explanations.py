"""Explains the state of a run: what it is waiting for, with current numbers, and suggestions."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

from fairlead.errors import NotFound
from fairlead.lifecycle.attempts import is_paused
from fairlead.manifests.attempts import manifests_of
from fairlead.model.columns import Condition
from fairlead.model.parsing import short_repr
from fairlead.model.plans import Fit
from fairlead.model.records import JSON, EventRecord, PlanRecord, RunRecord
from fairlead.model.requests import RunRequest
from fairlead.model.runs import State
from fairlead.planning import explanations
from fairlead.scheduling import evaluation, quotas
from fairlead.scheduling.pod_requests import read_pod_request
from fairlead.scheduling.queue_order import QUOTA, WAITING, queue_key
from fairlead.services import queue_positions
from fairlead.services.calls import Call
from fairlead.services.executions import Executions, find_run, is_unscheduled
from fairlead.services.queue_positions import find_queue_position
from fairlead.services.quotas import load_allowances
from fairlead.services.snapshots import Snapshots
from fairlead.services.suggestions import Suggestions
from fairlead.services.unit_of_work import UnitOfWork

SCHEDULER_PREFIX = "the scheduler says: "  # precedes the cluster's own message in a run's message
MAX_NODES = 5


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
            queue_details = queue_positions.describe(unit, queue_position)
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
        nodes = self.suggestions.nodes_of(unit, context)
        fit, load = Fit(), quotas.amounts_of(run)
        if nodes is not None:
            nodes = nodes.without(run.id)  # some of its pods may already be scheduled
            pod_request = read_pod_request(manifests_of(run, record))
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

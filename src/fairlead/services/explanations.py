"""Why a run is where it is: what it waits for, with the numbers of this moment, and what would help."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

from fairlead.core import explanations, quotas
from fairlead.core.attempts import is_paused
from fairlead.core.fitting import evaluation
from fairlead.core.fitting.pod_requests import read_pod_request
from fairlead.core.manifests.attempts import manifests_of
from fairlead.core.queue_order import QUOTA, WAITING, queue_key
from fairlead.errors import NotFound
from fairlead.model.parsing import short_repr
from fairlead.model.plans import Fit
from fairlead.model.queries import Condition
from fairlead.model.records import JSON, EventRecord, PlanRecord, RunRecord
from fairlead.model.requests import RunRequest
from fairlead.model.states import State
from fairlead.services import queue_positions
from fairlead.services.calls import Call
from fairlead.services.executions import Executions, find_run, has_no_place
from fairlead.services.queue_positions import find_queue_position
from fairlead.services.quotas import load_allowances
from fairlead.services.snapshots import Snapshots
from fairlead.services.suggestions import Suggestions
from fairlead.services.unit_of_work import UnitOfWork

THEIRS = "the scheduler says: "  # before a cluster's own words, in what is kept of a run
MOST_NODES = 5


@dataclass(frozen=True)
class Why:
    """One sentence, then what else is known, whether it would fit now, what would help, and what happened to it.

    `ahead`: how many runs are before it in the queue of the quota that it waits for, or of the machines, of one that is
    in no cluster's hands yet; `position`: its own place there, from 1 on; 0 where it does not queue.
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
    """The use cases of asking why."""

    def __init__(self, executions: Executions, snapshots: Snapshots) -> None:
        self.executions, self.units, self.snapshots = executions, executions.units, snapshots
        self.suggestions = Suggestions(snapshots, executions.executors)

    def why(self, call: Call, run_id: str) -> Why:
        """Why a run is where it is; of one that waits, with the numbers of this moment and what would help."""
        executor, run = self.executions.find_executor(call, run_id)
        queue_position = find_queue_position(executor, run)
        with self.units.reading(call) as unit:
            fit = (
                Fit() if queue_position is not None else self._judge(unit, run)
            )  # no node helps before its queue lets it go
            queue = _find_queue(unit, run)
            ahead = (
                0 if queue is None else unit.tx.count(RunRecord, *WAITING, *queue.of, Condition("turn", "<", run.turn))
            )
            events = unit.tx.find(EventRecord, Condition("run_id", "=", run_id), by="revision")
            told = queue_positions.tell(unit, queue_position)
        message = "; ".join(fit.reasons) or run.message
        position = 0 if queue is None else ahead + 1
        details = list(_describe_details(run, fit, message, "" if queue is None else f"number {position} {queue.name}"))
        if queue_position is not None and queue_position.pending:
            ahead, position = len(queue_position.ahead), len(queue_position.ahead) + 1
        return Why(run.state, run.reason, message, [*details, *told], ahead, position, fit, events)

    def explain(self, call: Call, run_id: str) -> JSON:
        """What was decided for a run; of one that waits, with its fit as of now."""
        with self.units.reading(call) as unit:
            run = find_run(unit, run_id)
            kept = unit.tx.get(PlanRecord, id=run_id)
            if kept is None:
                raise NotFound(f"there is no run {short_repr(run_id)}")
            return {**kept.plan, "fit": explanations.fit_data(self._judge(unit, run))}

    def _judge(self, unit: UnitOfWork, run: RunRecord) -> Fit:
        """Whether a run that has no place yet would get one now."""
        kept = unit.tx.get(PlanRecord, id=run.id)
        if kept is None or not has_no_place(run) or is_paused(run, unit.now):
            return Fit()
        request = RunRequest.model_validate(kept.request)
        context = self.snapshots.load(unit, run.scope, request)
        nodes = self.suggestions.nodes_of(unit, context)
        fit, load = Fit(), quotas.amounts_of(run)
        if nodes is not None:
            nodes = nodes.without(run.id)  # some of its pods may have a place already
            pod_request = read_pod_request(manifests_of(run, kept))
            fit = evaluation.evaluate(pod_request, nodes, autoscaled=context.snapshot.cluster.autoscaled)
        # What has a place counts in the quotas already. What takes the place of one that waits is the last in line.
        turn = () if run.server_id is not None else load_allowances(unit, run.scope, load, before=run.turn)
        last = load_allowances(unit, run.scope, before=queue_key(unit.make_id(), run.priority), besides=run.id)
        fit = self.suggestions.hold_back(unit, context, quotas.apply_quotas(fit, load, turn), run.turn)
        if fit.verdict == evaluation.NOW:
            return fit
        ways = self.suggestions.find(unit, run.scope, request, context, nodes, allowances=last, turn=turn)
        return replace(fit, suggestions=ways)


class _Queue(NamedTuple):
    """Those among whom a run waits for its turn: what is true of them, and how that is told."""

    of: tuple[Condition, ...]
    name: str


def _find_queue(unit: UnitOfWork, run: RunRecord) -> _Queue | None:
    """Where a run waits: for the first quota that lacks something for it, or for the machines of its cluster."""
    if run.state != State.QUEUED or run.server_id is not None or is_paused(run, unit.now):
        return None
    load = quotas.amounts_of(run)
    lacking = quotas.find_shortages(load, load_allowances(unit, run.scope, load, before=run.turn))
    if run.reason == QUOTA and lacking:
        scope = lacking[0].allowance.scope
        within = unit.organization.quota_limits.within(scope)
        return _Queue((Condition("reason", "=", QUOTA), *within), f"in the queue for the quota of {scope}")
    return _Queue((Condition("cluster", "=", run.cluster),), f"in the queue of {run.cluster or 'no cluster'}")


def _describe_details(run: RunRecord, fit: Fit, message: str, place: str) -> Iterator[str]:
    """What the cluster's own scheduler says, where it stands in line, and the nodes that come nearest."""
    if run.state == State.PENDING and run.message != message:
        theirs = run.message.partition(THEIRS)[2]
        yield f"{THEIRS}{theirs}" if theirs else run.message
    if place:
        yield f"it is {place}" + (f", with priority {run.priority}" if run.priority else "")
    if fit.verdict in (evaluation.LATER, evaluation.NEVER) and sum(fit.counts.values()) > 1 and not fit.counts["now"]:
        counts = fit.counts
        yield f"{counts['later']} of {sum(counts.values())} nodes could take it, if what is there were over"
        for node in fit.nodes[:MOST_NODES]:
            yield from node["reasons"]

"""Why a run is where it is: what it waits for, with the numbers of this moment, and what would help."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from fairlead.core import explaining, quotas
from fairlead.core.fitting import judging
from fairlead.core.fitting.asking import read_ask
from fairlead.errors import NotFound
from fairlead.model.parsing import show
from fairlead.model.plans import Fit
from fairlead.model.queries import Condition
from fairlead.model.records import JSON, EventRecord, PlanRecord, RunRecord
from fairlead.model.requests import RunRequest
from fairlead.model.states import State
from fairlead.services.calls import Call
from fairlead.services.executions import Executions, find_run, has_no_place
from fairlead.services.quotas import load_allowances
from fairlead.services.snapshots import Snapshots
from fairlead.services.units import Unit
from fairlead.services.ways_out import WaysOut

THEIRS = "the scheduler says: "  # before a cluster's own words, in what is kept of a run
MOST_NODES = 5


@dataclass(frozen=True)
class Why:
    """One sentence, then what else is known, whether it would fit now, what would help, and what happened to it.

    `ahead`: how many runs have waited longer for the same machines, of one that is in no cluster's hands yet.
    """

    state: str
    reason: str
    message: str
    details: list[str]
    ahead: int
    fit: Fit
    events: list[EventRecord]


class Whys:
    """The use cases of asking why."""

    def __init__(self, executions: Executions, snapshots: Snapshots) -> None:
        self.executions, self.units, self.snapshots = executions, executions.units, snapshots
        self.ways_out = WaysOut(snapshots, executions.executors)

    def why(self, call: Call, run_id: str) -> Why:
        """Why a run is where it is; of one that waits, with the numbers of this moment and what would help."""
        _, run = self.executions.find_executor(call, run_id)
        with self.units.reading(call) as unit:
            fit = self._judge(unit, run)
            ahead = _count_ahead(unit, run)
            events = unit.tx.find(EventRecord, Condition("run_id", "=", run_id))
        message = "; ".join(fit.reasons) or run.message
        details = list(_tell_details(run, fit, message, ahead))
        return Why(run.state, run.reason, message, details, ahead, fit, events)

    def explain(self, call: Call, run_id: str) -> JSON:
        """What was decided for a run; of one that waits, with its fit as of now."""
        with self.units.reading(call) as unit:
            run = find_run(unit, run_id)
            kept = unit.tx.get(PlanRecord, id=run_id)
            if kept is None:
                raise NotFound(f"there is no run {show(run_id)}")
            return {**kept.plan, "fit": explaining.fit_data(self._judge(unit, run))}

    def _judge(self, unit: Unit, run: RunRecord) -> Fit:
        """Whether a run that has no place yet would get one now."""
        kept = unit.tx.get(PlanRecord, id=run.id)
        if kept is None or not has_no_place(run):
            return Fit()
        request = RunRequest.model_validate(kept.request)
        ground = self.snapshots.load(unit, run.scope, request)
        nodes = self.ways_out.nodes_of(unit, ground)
        fit, load = Fit(), quotas.load_of(run)
        if nodes is not None:
            nodes = nodes.without(run.id)  # some of its pods may have a place already
            fit = judging.judge(read_ask(kept.plan["manifests"]), nodes, autoscaled=ground.snapshot.cluster.autoscaled)
        # What has a place counts in the quotas already. What takes the place of one that waits is the last in line.
        turn = () if run.held_by is not None else load_allowances(unit, run.scope, load, before=run.id)
        last = load_allowances(unit, run.scope, besides=run.id)
        fit = self.ways_out.hold_back(unit, ground, quotas.hold(fit, load, turn), run.id)
        if fit.verdict == judging.NOW:
            return fit
        ways = self.ways_out.find(unit, run.scope, request, ground, nodes, allowances=last, turn=turn)
        return replace(fit, ways_out=ways)


def _count_ahead(unit: Unit, run: RunRecord) -> int:
    if run.state != State.QUEUED or run.held_by is not None:
        return 0
    return unit.tx.count(
        RunRecord,
        Condition("live", "=", True),
        Condition("held_by", "=", None),
        Condition("state", "=", str(State.QUEUED)),
        Condition("cluster", "=", run.cluster),
        Condition("id", "<", run.id),
    )


def _tell_details(run: RunRecord, fit: Fit, message: str, ahead: int) -> Iterator[str]:
    """What the cluster's own scheduler says, who is before it, and the nodes that come nearest."""
    if run.state == State.PENDING and run.message != message:
        theirs = run.message.partition(THEIRS)[2]
        yield f"{THEIRS}{theirs}" if theirs else run.message
    if ahead:
        yield f"{ahead} run{'s have' if ahead > 1 else ' has'} waited longer for the same machines"
    if fit.verdict in (judging.LATER, judging.NEVER) and sum(fit.counts.values()) > 1 and not fit.counts["now"]:
        counts = fit.counts
        yield f"{counts['later']} of {sum(counts.values())} nodes could take it, if what is there were over"
        for node in fit.nodes[:MOST_NODES]:
            yield from node["reasons"]

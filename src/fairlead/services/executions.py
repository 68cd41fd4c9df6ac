"""What a run is doing and what came of it: logs, usage, files, result, history, and why it waits."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import BinaryIO

from fairlead.core.fitting import judging
from fairlead.core.fitting.asking import read_ask
from fairlead.core.fitting.wording import show_amount
from fairlead.core.outcomes import find_peaks
from fairlead.errors import Conflict, NotFound, RequestRejected, Unavailable
from fairlead.model.nodes import Node
from fairlead.model.observations import LogPage, OutputFile
from fairlead.model.parsing import show
from fairlead.model.plans import Fit, Violation
from fairlead.model.queries import Condition
from fairlead.model.records import JSON, BlobRecord, EventRecord, OutcomeRecord, PlanRecord, RunRecord, ServerRecord
from fairlead.model.roles import Deed
from fairlead.model.states import State
from fairlead.ports import Executor, Executors
from fairlead.services.calls import Call
from fairlead.services.units import Unit, Units


@dataclass(frozen=True)
class Outcome:
    """What came of a run that has ended."""

    state: str
    reason: str
    message: str
    exit_code: int | None
    result: JSON | None
    error: JSON | None
    usage: JSON


@dataclass(frozen=True)
class Usage:
    """What a run uses: the most of each, and samples over time."""

    peaks: JSON
    series: list[JSON]


@dataclass(frozen=True)
class Why:
    """Why a run is where it is: one sentence, then whether it would fit now, and what happened to it."""

    state: str
    reason: str
    message: str
    fit: Fit
    events: list[EventRecord]


@dataclass(frozen=True)
class NodeView:
    """A node: what it has, what is free of it, and which runs are there, as far as the caller sees them."""

    name: str
    labels: dict[str, str]
    capacity: dict[str, str]
    free: dict[str, str]
    runs: list[str]
    others: int


class Executions:
    """The use cases of runs that are executed."""

    def __init__(self, units: Units, executors: Executors, server_id: str = "") -> None:
        self.units, self.executors, self.server_id = units, executors, server_id

    def log(self, call: Call, run_id: str, cursor: int, most: int) -> LogPage:
        """Part of a run's log."""
        executor, run = self._find_executor(call, run_id)
        if executor is None or run.held_by is None:
            return LogPage([], cursor, complete=not run.live)
        try:
            page = executor.read_log(run_id, cursor, most)
        except NotFound:
            if run.live:  # it has a place, and nothing is there yet
                return LogPage([], cursor, complete=False)
            raise
        except ValueError as error:
            violation = Violation("cursor", "cursor", f"{cursor}: {error}", "use the cursor of the page before, or 0")
            raise RequestRejected([violation]) from None
        return page

    def usage(self, call: Call, run_id: str) -> Usage:
        """What a run used, over time and at most."""
        executor, _ = self._find_executor(call, run_id)
        series = [] if executor is None else executor.read_usage(run_id)
        with self.units.reading(call) as unit:
            kept = unit.tx.get(OutcomeRecord, id=run_id)
        return Usage(find_peaks(series) if kept is None else kept.usage, series)

    def files(self, call: Call, run_id: str) -> list[OutputFile]:
        """The files that a run left."""
        executor, _ = self._find_executor(call, run_id)
        return [] if executor is None else executor.list_files(run_id)

    def open_file(self, call: Call, run_id: str, path: str) -> BinaryIO:
        """One file that a run left."""
        executor, _ = self._find_executor(call, run_id)
        if executor is None:
            raise NotFound(f"run {run_id} left no file {show(path)}", "list its files to see what it left")
        return executor.open_file(run_id, path)

    def outcome(self, call: Call, run_id: str) -> Outcome:
        """What came of a run. Raise `Conflict` where it has not ended."""
        with self.units.reading(call) as unit:
            run = find_run(unit, run_id)
            if run.live:
                raise Conflict(f"run {run_id} is {run.state}, and has no result yet", "wait for its end")
            kept = unit.tx.get(OutcomeRecord, id=run_id) or OutcomeRecord(id=run_id)
            ended = (run.state, run.reason, run.message, run.exit_code)
            return Outcome(*ended, result=kept.result, error=kept.error, usage=kept.usage)

    def events(self, call: Call, run_id: str) -> list[EventRecord]:
        """What happened to a run, the oldest first."""
        with self.units.reading(call) as unit:
            find_run(unit, run_id)
            return unit.tx.find(EventRecord, Condition("run_id", "=", run_id))

    def why(self, call: Call, run_id: str) -> Why:
        """Why a run is where it is; of one that waits, with the numbers of this moment."""
        executor, run = self._find_executor(call, run_id)
        events = self.events(call, run_id)
        fit = Fit()
        with self.units.reading(call) as unit:
            kept = unit.tx.get(PlanRecord, id=run_id)
            if executor is not None and kept is not None and run.state == State.QUEUED:
                cluster = unit.organisation.clusters.get(run.cluster or "")
                autoscaled = cluster is not None and cluster.autoscaled
                nodes = known_nodes(unit, executor)
                if nodes is not None:
                    fit = judging.judge(read_ask(kept.plan["manifests"]), nodes, autoscaled=autoscaled)
        message = "; ".join(fit.reasons) or run.message
        return Why(run.state, run.reason, message, fit, events)

    def code(self, call: Call, run_id: str) -> bytes:
        """The packed code that a run executes, so that it can be looked at again."""
        with self.units.reading(call) as unit:
            run = find_run(unit, run_id)
            kept = None if run.code is None else unit.tx.get(BlobRecord, id=run.code)
            if kept is None:
                raise NotFound(f"run {run_id} has no code of its own")
            return kept.content

    def nodes(self, call: Call) -> list[NodeView]:
        """Where runs are executed, what is there and what is free."""
        with self.units.reading(call) as unit:
            found = [node for executor in self.executors.all() for node in known_nodes(unit, executor) or ()]
        return [_view_of(node) for node in found]

    def _find_executor(self, call: Call, run_id: str) -> tuple[Executor | None, RunRecord]:
        """Who executes a run. Raise `Conflict` where that is another machine, and say which."""
        with self.units.reading(call) as unit:
            run = find_run(unit, run_id)
            cluster = None if run.cluster is None else unit.organisation.clusters.get(run.cluster)
            local = cluster is not None and cluster.executor == "local"
            if local and run.held_by not in (None, self.server_id):
                other = unit.tx.get(ServerRecord, id=run.held_by)
                where = f"{other.name}, at {other.url}" if other is not None else "another machine"
                raise Conflict(f"run {run_id} is executed by {where}", "ask that server")
        return self.executors.find(cluster), run


def known_nodes(unit: Unit, executor: Executor) -> list[Node] | None:
    """The nodes of an executor as the caller may see them; None where nobody can tell now."""
    try:
        return list(_visible_nodes(unit, executor))
    except Unavailable:
        return None


def _visible_nodes(unit: Unit, executor: Executor) -> Iterator[Node]:
    """The nodes of an executor, without the names of runs that the caller may not see."""
    seen: dict[str, bool] = {}
    for node in executor.nodes():
        for project in node.projects - seen.keys():
            seen[project] = unit.permissions.sees(f"project/{project}")
        if all(seen[project] for project in node.projects):
            yield node  # as it is, with all that was worked out about it before
        else:
            holdings = (held if seen.get(held.project) else replace(held, name=None) for held in node.holdings)
            yield replace(node, holdings=tuple(holdings))


def _view_of(node: Node) -> NodeView:
    has = {name: show_amount(name, amount) for name, amount in node.capacity.items()}
    free = {name: show_amount(name, max(node.free(name), 0)) for name in node.capacity}
    named = [holding.run_id for holding in node.holdings if holding.name is not None]
    return NodeView(node.name, dict(node.labels), has, free, named, len(node.holdings) - len(named))


def find_run(unit: Unit, run_id: str, deed: Deed = Deed.SEE) -> RunRecord:
    """A run that the caller may do something with. Raise `NotFound` where it is not there for them."""
    record = unit.tx.get(RunRecord, id=run_id)
    if record is None or not unit.permissions.sees(record.scope):
        raise NotFound(f"there is no run {show(run_id)}")
    unit.require(deed, record.scope, f"run {show(run_id)}")
    return record

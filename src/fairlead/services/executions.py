"""What a run is doing and what came of it: logs, usage, files, result and history."""

from dataclasses import dataclass
from functools import cache
from typing import BinaryIO

from fairlead.core.fitting import capacity
from fairlead.core.fitting.grids import Grid, kind_of
from fairlead.core.fitting.wording import show_amount
from fairlead.core.outcomes import find_peaks
from fairlead.errors import Conflict, NotFound, RequestRejected, Unavailable
from fairlead.model.nodes import Node
from fairlead.model.observations import LogPage, OutputFile
from fairlead.model.parsing import show
from fairlead.model.plans import Violation
from fairlead.model.queries import Condition
from fairlead.model.records import JSON, BlobRecord, EventRecord, OutcomeRecord, RunRecord, ServerRecord
from fairlead.model.roles import Deed
from fairlead.model.scopes import Cluster
from fairlead.model.states import State
from fairlead.ports import Executor, Executors
from fairlead.services.calls import Call
from fairlead.services.units import Unit, Units

# What is said of a run that is in a cluster's hands, and of which a pod has no node.
UNPLACED = ("Unschedulable", "SchedulerError", "Preempted", "Evicted", "NodeLost", "ProvisioningFailed")


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
class NodeView:
    """A node: what it has, what is free of it, and which runs are there, as far as the caller sees them.

    `closed`: it takes nothing new now, because it is cordoned or not well. `group` and `gpu_type` are empty where no
    label of the node tells, or it has no GPU.
    """

    name: str
    cluster: str
    group: str
    gpu_type: str
    labels: dict[str, str]
    taints: list[str]
    unschedulable: bool
    closed: bool
    capacity: dict[str, str]
    requested: dict[str, str]
    free: dict[str, str]
    runs: list[str]
    others: int


class Executions:
    """The use cases of runs that are executed."""

    def __init__(self, units: Units, executors: Executors, server_id: str = "") -> None:
        self.units, self.executors, self.server_id = units, executors, server_id

    def log(self, call: Call, run_id: str, cursor: int, most: int) -> LogPage:
        """Part of a run's log."""
        executor, run = self.find_executor(call, run_id)
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
        executor, _ = self.find_executor(call, run_id)
        series = [] if executor is None else executor.read_usage(run_id)
        with self.units.reading(call) as unit:
            kept = unit.tx.get(OutcomeRecord, id=run_id)
        return Usage(find_peaks(series) if kept is None else kept.usage, series)

    def files(self, call: Call, run_id: str) -> list[OutputFile]:
        """The files that a run left."""
        executor, _ = self.find_executor(call, run_id)
        return [] if executor is None else executor.list_files(run_id)

    def open_file(self, call: Call, run_id: str, path: str) -> BinaryIO:
        """One file that a run left."""
        executor, _ = self.find_executor(call, run_id)
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

    def code(self, call: Call, run_id: str) -> bytes:
        """The packed code that a run executes, so that it can be looked at again."""
        with self.units.reading(call) as unit:
            run = find_run(unit, run_id)
            kept = None if run.code is None else unit.tx.get(BlobRecord, id=run.code)
            if kept is None:
                raise NotFound(f"run {run_id} has no code of its own")
            return kept.content

    def nodes(self, call: Call, cluster: str | None = None) -> list[NodeView]:
        """Where runs are executed, what is there and what is free: on all clusters that the caller sees, or on one."""
        with self.units.reading(call) as unit:
            if cluster is not None:
                unit.require(Deed.SEE, f"cluster/{cluster}", f"cluster/{cluster}")
            seen = [each for scope, each in unit.organisation.clusters.items() if unit.permissions.sees(scope)]
            found: list[NodeView] = []
            for each in sorted(seen, key=lambda each: each.name):
                executor = self.executors.find(each) if cluster in (None, each.name) else None
                grid = None if executor is None else known_nodes(unit, executor)
                found += [] if grid is None else [_view_of(node, grid, each) for node in sorted(grid, key=_name_of)]
            return found

    def find_executor(self, call: Call, run_id: str) -> tuple[Executor | None, RunRecord]:
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


def known_nodes(unit: Unit, executor: Executor) -> Grid | None:
    """The nodes of an executor, with the names of runs that the caller may see; None where nobody can tell now."""
    try:
        return show_nodes(unit, executor)
    except Unavailable:
        return None


def show_nodes(unit: Unit, executor: Executor) -> Grid:
    """The same; raise `Unavailable` where nobody can tell now."""
    return executor.nodes().seen_by(cache(lambda project: unit.permissions.sees(f"project/{project}")))


def _view_of(node: Node, grid: Grid, cluster: Cluster) -> NodeView:
    named = [holding.run_id for holding in node.holdings if grid.name_of(holding) is not None]
    return NodeView(
        name=node.name,
        cluster=cluster.name,
        group=capacity.name_group(node.labels),
        gpu_type=capacity.name_gpu_type(node, cluster.gpu_product_label),
        labels=dict(node.labels),
        taints=list(map(str, node.taints)),
        unschedulable=node.unschedulable,
        closed=capacity.is_closed(kind_of(node)),
        capacity={name: show_amount(name, amount) for name, amount in node.capacity.items()},
        requested={name: show_amount(name, amount - node.free(name)) for name, amount in node.capacity.items()},
        free={name: show_amount(name, max(node.free(name), 0)) for name in node.capacity},
        runs=named,
        others=len(node.holdings) - len(named),
    )


def _name_of(node: Node) -> str:
    return node.name


def find_run(unit: Unit, run_id: str, deed: Deed = Deed.SEE) -> RunRecord:
    """A run that the caller may do something with. Raise `NotFound` where it is not there for them."""
    record = unit.tx.get(RunRecord, id=run_id)
    if record is None or not unit.permissions.sees(record.scope):
        raise NotFound(f"there is no run {show(run_id)}")
    unit.require(deed, record.scope, f"run {show(run_id)}")
    return record


def has_no_place(run: RunRecord) -> bool:
    """Whether a run waits: nobody has it yet, or a cluster has it and finds no node."""
    return (run.state == State.QUEUED and run.held_by is None) or (
        run.state == State.PENDING and run.reason in UNPLACED
    )

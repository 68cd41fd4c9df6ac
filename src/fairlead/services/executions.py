"""What a run is doing and what came of it: logs, usage, files, result and history."""

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache
from typing import BinaryIO

from fairlead.core import attempts, cursors
from fairlead.core.fitting import capacity
from fairlead.core.fitting.formatting import show_amount
from fairlead.core.fitting.node_tables import NodeTable, taint_set_of
from fairlead.core.outcomes import find_peaks
from fairlead.errors import Conflict, NotFound, RequestRejected, Unavailable
from fairlead.model.nodes import Node
from fairlead.model.observations import LogEntry, LogPage, OutputFile
from fairlead.model.parsing import short_repr
from fairlead.model.plans import Violation
from fairlead.model.queries import Condition
from fairlead.model.records import JSON, AttemptRecord, BlobRecord, EventRecord, OutcomeRecord, RunRecord
from fairlead.model.roles import Permission
from fairlead.model.scopes import Cluster
from fairlead.model.states import State
from fairlead.ports import Executor, Executors
from fairlead.services.attempts import AttemptHandle, AttemptView, find_attempt, list_attempts
from fairlead.services.calls import Call
from fairlead.services.unit_of_work import UnitOfWork, UnitOfWorkFactory

# What is said of a run that is in a cluster's hands, and of which a pod has no node.
EPOCH = datetime.fromtimestamp(0, UTC)
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
    unavailable: bool
    capacity: dict[str, str]
    requested: dict[str, str]
    free: dict[str, str]
    runs: list[str]
    others: int


class Executions:
    """The use cases of runs that are executed."""

    def __init__(self, units: UnitOfWorkFactory, executors: Executors, server_id: str = "") -> None:
        self.units, self.executors, self.server_id = units, executors, server_id

    def log(self, call: Call, run_id: str, cursor: int | None, most: int, attempt: int | None = None) -> LogPage:
        """Part of a run's log from a cursor on; without one, from where the try begins that is said, or else the last.

        Of a try that is said, its log alone; otherwise the tries follow one another, and it is complete when the run
        has ended. Each cursor tells of which try it is.
        """
        with self.units.reading(call) as unit:
            run = find_run(unit, run_id)
            number, position = _find_place(run, cursor, attempt)
            tried = self._find_attempt(unit, run, number)
        page = _read_log(tried, position, most, follows=attempt is None)
        entries = [replace(entry, end=cursors.join(number, entry.end)) for entry in page.entries]
        if attempt is not None or not page.complete:
            return LogPage(entries, cursors.join(number, page.cursor), page.complete)
        if tried.record is None:
            return LogPage(entries, cursors.join(number, page.cursor), complete=not run.active)
        after = cursors.join(number + 1, 0)
        return LogPage([*entries, _describe_next(tried.record, after)], after, complete=False)

    def usage(self, call: Call, run_id: str, attempt: int | None = None) -> Usage:
        """What a try of a run used, over time and at most; of the last one where none is said."""
        tried = self._open_attempt(call, run_id, attempt)
        series = [] if tried.executor is None else tried.executor.read_usage(tried.execution)
        kept: AttemptRecord | OutcomeRecord | None = tried.record
        if kept is None:
            with self.units.reading(call) as unit:
                kept = unit.tx.get(OutcomeRecord, id=run_id)
        return Usage(find_peaks(series) if kept is None else kept.usage, series)

    def files(self, call: Call, run_id: str, attempt: int | None = None) -> list[OutputFile]:
        """The files that a try of a run left; the last one where none is said."""
        tried = self._open_attempt(call, run_id, attempt)
        return [] if tried.executor is None else tried.executor.list_files(tried.execution)

    def open_file(self, call: Call, run_id: str, path: str, attempt: int | None = None) -> BinaryIO:
        """One file that a try of a run left; the last one where none is said."""
        tried = self._open_attempt(call, run_id, attempt)
        hint = "list its files to see what it left"
        missing = NotFound(f"{attempts.describe_execution(tried.execution)} left no file {short_repr(path)}", hint)
        if tried.executor is None:
            raise missing
        try:
            return tried.executor.open_file(tried.execution, path)
        except NotFound:
            raise missing from None

    def attempts(self, call: Call, run_id: str) -> list[AttemptView]:
        """The tries of a run, the first one first."""
        with self.units.reading(call) as unit:
            return list_attempts(unit, find_run(unit, run_id))

    def outcome(self, call: Call, run_id: str) -> Outcome:
        """What came of a run. Raise `Conflict` where it has not ended."""
        with self.units.reading(call) as unit:
            run = find_run(unit, run_id)
            if run.active:
                raise Conflict(f"run {run_id} is {run.state}, and has no result yet", "wait for its end")
            kept = unit.tx.get(OutcomeRecord, id=run_id) or OutcomeRecord(id=run_id)
            ended = (run.state, run.reason, run.message, run.exit_code)
            return Outcome(*ended, result=kept.result, error=kept.error, usage=kept.usage)

    def events(self, call: Call, run_id: str) -> list[EventRecord]:
        """What happened to a run, the oldest first."""
        with self.units.reading(call) as unit:
            find_run(unit, run_id)
            return unit.tx.find(EventRecord, Condition("run_id", "=", run_id), by="revision")

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
                unit.require(Permission.VIEW, f"cluster/{cluster}", f"cluster/{cluster}")
            seen = [each for scope, each in unit.organization.clusters.items() if unit.permissions.sees(scope)]
            found: list[NodeView] = []
            for each in sorted(seen, key=lambda each: each.name):
                executor = self.executors.find(each) if cluster in (None, each.name) else None
                table = None if executor is None else known_nodes(unit, executor)
                found += [] if table is None else [_view_of(node, table, each) for node in sorted(table, key=_name_of)]
            return found

    def find_executor(self, call: Call, run_id: str) -> tuple[Executor | None, RunRecord]:
        """Who executes a run. Raise `Conflict` where that is another machine, and say which."""
        with self.units.reading(call) as unit:
            run = find_run(unit, run_id)
            return self._find_attempt(unit, run, run.attempt).executor, run

    def _open_attempt(self, call: Call, run_id: str, attempt: int | None) -> AttemptHandle:
        with self.units.reading(call) as unit:
            return self._find_attempt(unit, find_run(unit, run_id), attempt)

    def _find_attempt(self, unit: UnitOfWork, run: RunRecord, attempt: int | None) -> AttemptHandle:
        return find_attempt(unit, self.executors, self.server_id, run, attempt)


def _find_place(run: RunRecord, cursor: int | None, attempt: int | None) -> tuple[int, int]:
    """From where a log is read: the try, and the place in its log."""
    if cursor is None:
        return attempts.last_started_attempt(run) if attempt is None else attempt, 0
    number, position = cursors.split(cursor)
    if attempt not in (None, number) and cursor != 0:
        raise _refuse_cursor(cursor, f"it is of attempt {number}, and attempt {attempt} was asked for")
    if not 1 <= number <= run.attempt:
        raise _refuse_cursor(cursor, "the log is not that long")
    return number if attempt is None else attempt, position


def _read_log(tried: AttemptHandle, position: int, most: int, *, follows: bool) -> LogPage:
    """Part of the log of a try. Of one whose log is not kept any more: nothing, where others follow it."""
    if tried.executor is None or not tried.has_place:
        return LogPage([], position, complete=not tried.run.active)
    try:
        return tried.executor.read_log(tried.execution, position, most)
    except NotFound:
        # It has a place, and nothing is there yet; or nothing ever was.
        if tried.record is None and (tried.run.active or tried.run.started_at is None):
            return LogPage([], position, complete=not tried.run.active)
        if tried.record is not None and follows:
            return LogPage([], position, complete=True)
        raise NotFound(f"the log of {attempts.describe_execution(tried.execution)} is not kept any more") from None
    except ValueError as error:
        raise _refuse_cursor(cursors.join(tried.number, position), str(error)) from None


def _describe_next(ended: AttemptRecord, end: int) -> LogEntry:
    """The line between the logs of two tries."""
    told = f"attempt {ended.number} failed ({ended.reason}): {ended.message}; attempt {ended.number + 1} follows\n"
    return LogEntry(ended.finished_at or EPOCH, "platform", told.encode(), end)


def _refuse_cursor(cursor: int, why: str) -> RequestRejected:
    violation = Violation("cursor", "cursor", f"{cursor}: {why}", "use the cursor of the page before, or leave it out")
    return RequestRejected([violation])


def known_nodes(unit: UnitOfWork, executor: Executor) -> NodeTable | None:
    """The nodes of an executor, with the names of runs that the caller may see; None where nobody can tell now."""
    try:
        return show_nodes(unit, executor)
    except Unavailable:
        return None


def show_nodes(unit: UnitOfWork, executor: Executor) -> NodeTable:
    """The same; raise `Unavailable` where nobody can tell now."""
    return executor.nodes().visible_to(cache(lambda project: unit.permissions.sees(f"project/{project}")))


def _view_of(node: Node, table: NodeTable, cluster: Cluster) -> NodeView:
    named = [holding.run_id for holding in node.pods if table.visible_name(holding) is not None]
    return NodeView(
        name=node.name,
        cluster=cluster.name,
        group=capacity.group_of(node.labels),
        gpu_type=capacity.gpu_type_of(node, cluster.gpu_product_label),
        labels=dict(node.labels),
        taints=list(map(str, node.taints)),
        unschedulable=node.unschedulable,
        unavailable=capacity.is_cordoned_or_unhealthy(taint_set_of(node)),
        capacity={name: show_amount(name, amount) for name, amount in node.capacity.items()},
        requested={name: show_amount(name, amount - node.free(name)) for name, amount in node.capacity.items()},
        free={name: show_amount(name, max(node.free(name), 0)) for name in node.capacity},
        runs=named,
        others=len(node.pods) - len(named),
    )


def _name_of(node: Node) -> str:
    return node.name


def find_run(unit: UnitOfWork, run_id: str, permission: Permission = Permission.VIEW) -> RunRecord:
    """A run that the caller may do something with. Raise `NotFound` where it is not there for them."""
    record = unit.tx.get(RunRecord, id=run_id)
    if record is None or not unit.permissions.sees(record.scope):
        raise NotFound(f"there is no run {short_repr(run_id)}")
    unit.require(permission, record.scope, f"run {short_repr(run_id)}")
    return record


def has_no_place(run: RunRecord) -> bool:
    """Whether a run waits: nobody has it yet, or a cluster has it and finds no node."""
    return (run.state == State.QUEUED and run.server_id is None) or (
        run.state == State.PENDING and run.reason in UNPLACED
    )

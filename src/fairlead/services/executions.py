"""Logs, usage, output files, results and events of runs, and the nodes that execute them."""

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache
from typing import BinaryIO

from fairlead.errors import Conflict, NotFound, RequestRejected, Unavailable
from fairlead.lifecycle import attempts
from fairlead.lifecycle.lifecycle import find_peaks
from fairlead.model import columns
from fairlead.model.columns import Condition
from fairlead.model.nodes import Node
from fairlead.model.parsing import short_repr
from fairlead.model.plans import Violation
from fairlead.model.records import JSON, AttemptRecord, BlobRecord, EventRecord, OutcomeRecord, RunRecord
from fairlead.model.runs import LogEntry, LogPage, OutputFile, State
from fairlead.model.scopes import Cluster, Permission
from fairlead.planning import capacity
from fairlead.ports import Executor, Executors
from fairlead.scheduling.node_tables import NodeTable, taint_set_of
from fairlead.scheduling.reasons import show_amount
from fairlead.services.attempts import AttemptHandle, AttemptView, find_attempt, list_attempts
from fairlead.services.calls import Call
from fairlead.services.unit_of_work import UnitOfWork, UnitOfWorkFactory

EPOCH = datetime.fromtimestamp(0, UTC)
# Reasons of pending runs whose pod has no node.
UNSCHEDULED_REASONS = ("Unschedulable", "SchedulerError", "Preempted", "Evicted", "NodeLost", "ProvisioningFailed")


@dataclass(frozen=True)
class Outcome:
    """The result of an ended run."""

    state: str
    reason: str
    message: str
    exit_code: int | None
    result: JSON | None
    error: JSON | None
    usage: JSON


@dataclass(frozen=True)
class Usage:
    """Resource usage of a run: peaks, and samples over time."""

    peaks: JSON
    series: list[JSON]


@dataclass(frozen=True)
class NodeView:
    """A node with its capacity and its runs. `others` counts all pods except those of runs visible to the caller.

    `unavailable` means that the node is cordoned or unhealthy and accepts no new pods. `group` and `gpu_type` are empty
    if the node's labels do not define them or it has no GPU.
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
    """Reads the logs, usage, files and results of runs from their executors."""

    def __init__(self, units: UnitOfWorkFactory, executors: Executors, server_id: str = "") -> None:
        self.units, self.executors, self.server_id = units, executors, server_id

    def log(self, call: Call, run_id: str, cursor: int | None, max_bytes: int, attempt: int | None = None) -> LogPage:
        """Read part of a run's log, from a cursor or from the start of an attempt (by default the last one).

        With `attempt`, only that attempt's log is read. Otherwise the log continues with the next attempt and is
        complete when the run has ended. Cursors include the attempt number.
        """
        with self.units.reading(call) as unit:
            run = find_run(unit, run_id)
            number, position = _resolve_cursor(run, cursor, attempt)
            handle = self._find_attempt(unit, run, number)
        # This is outside the transaction, because reading from a cluster may take a long time.
        page = _read_log(handle, position, max_bytes, continues=attempt is None)
        entries = [replace(entry, end=columns.join(number, entry.end)) for entry in page.entries]
        if attempt is not None or not page.complete:
            return LogPage(entries, columns.join(number, page.cursor), page.complete)
        # This is the current attempt. While the run is active, its log can grow, or another attempt can follow.
        if handle.record is None:
            return LogPage(entries, columns.join(number, page.cursor), complete=not run.active)
        after = columns.join(number + 1, 0)
        return LogPage([*entries, _attempt_separator(handle.record, after)], after, complete=False)

    def usage(self, call: Call, run_id: str, attempt: int | None = None) -> Usage:
        """Return the resource usage of an attempt, by default the last one."""
        handle = self._open_attempt(call, run_id, attempt)
        series = [] if handle.executor is None else handle.executor.read_usage(handle.execution)
        record: AttemptRecord | OutcomeRecord | None = handle.record
        # The current attempt's peaks are stored when it ends. Until then they are computed from the samples.
        if record is None:
            with self.units.reading(call) as unit:
                record = unit.tx.get(OutcomeRecord, id=run_id)
        return Usage(find_peaks(series) if record is None else record.usage, series)

    def files(self, call: Call, run_id: str, attempt: int | None = None) -> list[OutputFile]:
        """List the output files of an attempt, by default the last one."""
        handle = self._open_attempt(call, run_id, attempt)
        return [] if handle.executor is None else handle.executor.list_files(handle.execution)

    def open_file(self, call: Call, run_id: str, path: str, attempt: int | None = None) -> BinaryIO:
        """Open an output file of an attempt, by default the last one."""
        handle = self._open_attempt(call, run_id, attempt)
        message = f"output file {short_repr(path)} of {attempts.describe_execution(handle.execution)} does not exist"
        missing = NotFound(message, "list the run's output files")
        if handle.executor is None:
            raise missing
        try:
            return handle.executor.open_file(handle.execution, path)
        except NotFound:
            raise missing from None

    def attempts(self, call: Call, run_id: str) -> list[AttemptView]:
        """Return the attempts of a run, oldest first."""
        with self.units.reading(call) as unit:
            return list_attempts(unit, find_run(unit, run_id))

    def outcome(self, call: Call, run_id: str) -> Outcome:
        """Return the result of a run. Raises `Conflict` if the run has not ended."""
        with self.units.reading(call) as unit:
            run = find_run(unit, run_id)
            if run.active:
                raise Conflict(f"run {run_id} is {run.state} and has no result yet", "wait until it has ended")
            record = unit.tx.get(OutcomeRecord, id=run_id) or OutcomeRecord(id=run_id)
            state = (run.state, run.reason, run.message, run.exit_code)
            return Outcome(*state, result=record.result, error=record.error, usage=record.usage)

    def events(self, call: Call, run_id: str) -> list[EventRecord]:
        """Return the events of a run, oldest first."""
        with self.units.reading(call) as unit:
            find_run(unit, run_id)
            return unit.tx.find(EventRecord, Condition("run_id", "=", run_id), by="revision")

    def code(self, call: Call, run_id: str) -> bytes:
        """Return a run's code as a tar.gz archive."""
        with self.units.reading(call) as unit:
            run = find_run(unit, run_id)
            blob = None if run.code is None else unit.tx.get(BlobRecord, id=run.code)
            if blob is None:
                raise NotFound(f"run {run_id} has no code")
            return blob.content

    def nodes(self, call: Call, cluster: str | None = None) -> list[NodeView]:
        """Return the nodes of all visible clusters, or of one cluster. Clusters with unknown nodes are left out."""
        with self.units.reading(call) as unit:
            if cluster is not None:
                unit.require(Permission.VIEW, f"cluster/{cluster}", f"cluster/{cluster}")
            visible = [each for scope, each in unit.organization.clusters.items() if unit.permissions.sees(scope)]
            views: list[NodeView] = []
            for each in sorted(visible, key=lambda each: each.name):
                executor = self.executors.find(each) if cluster in (None, each.name) else None
                table = None if executor is None else find_visible_nodes(unit, executor)
                views += [] if table is None else [_view_of(node, table, each) for node in sorted(table, key=_name_of)]
            return views

    def find_executor(self, call: Call, run_id: str) -> tuple[Executor | None, RunRecord]:
        """Return a run's executor. Raises `Conflict` if another server executes the run on its own machine."""
        with self.units.reading(call) as unit:
            run = find_run(unit, run_id)
            return self._find_attempt(unit, run, run.attempt).executor, run

    def _open_attempt(self, call: Call, run_id: str, attempt: int | None) -> AttemptHandle:
        with self.units.reading(call) as unit:
            return self._find_attempt(unit, find_run(unit, run_id), attempt)

    def _find_attempt(self, unit: UnitOfWork, run: RunRecord, attempt: int | None) -> AttemptHandle:
        return find_attempt(unit, self.executors, self.server_id, run, attempt)


def _resolve_cursor(run: RunRecord, cursor: int | None, attempt: int | None) -> tuple[int, int]:
    """Return the attempt to read, and the position in its log to start from."""
    if cursor is None:
        return attempts.last_started_attempt(run) if attempt is None else attempt, 0
    number, position = columns.split(cursor)
    # 0 is accepted for every attempt, because clients use it for the start of a log.
    if attempt not in (None, number) and cursor != 0:
        raise _invalid_cursor(cursor, f"the cursor belongs to attempt {number}, not to attempt {attempt}")
    if not 1 <= number <= run.attempt:
        raise _invalid_cursor(cursor, "the cursor is outside the log")
    return number if attempt is None else attempt, position


def _read_log(handle: AttemptHandle, position: int, max_bytes: int, *, continues: bool) -> LogPage:
    """Read part of an attempt's log.

    If the log was deleted, returns an empty page if it `continues` with the next attempt, and raises `NotFound` if not.
    """
    if handle.executor is None or not handle.was_assigned:
        return LogPage([], position, complete=not handle.run.active)
    try:
        return handle.executor.read_log(handle.execution, position, max_bytes)
    except NotFound:
        # The run was assigned to a server, but has not written anything yet or never started.
        if handle.record is None and (handle.run.active or handle.run.started_at is None):
            return LogPage([], position, complete=not handle.run.active)
        if handle.record is not None and continues:
            return LogPage([], position, complete=True)
        raise NotFound(f"the log of {attempts.describe_execution(handle.execution)} has been deleted") from None
    except ValueError as error:
        raise _invalid_cursor(columns.join(handle.number, position), str(error)) from None


def _attempt_separator(ended: AttemptRecord, end: int) -> LogEntry:
    """Return the line between the logs of two attempts."""
    text = f"attempt {ended.number} failed ({ended.reason}): {ended.message}; attempt {ended.number + 1} follows\n"
    return LogEntry(ended.finished_at or EPOCH, "platform", text.encode(), end)


def _invalid_cursor(cursor: int, problem: str) -> RequestRejected:
    violation = Violation(
        "cursor", "cursor", f"{cursor}: {problem}", "use the cursor from the previous page, or omit it"
    )
    return RequestRejected([violation])


def find_visible_nodes(unit: UnitOfWork, executor: Executor) -> NodeTable | None:
    """Return an executor's nodes with the names of visible runs only; None if they are unknown."""
    try:
        return load_visible_nodes(unit, executor)
    except Unavailable:
        return None


def load_visible_nodes(unit: UnitOfWork, executor: Executor) -> NodeTable:
    """Return an executor's nodes with the names of visible runs only. Raises `Unavailable` if they are unknown."""
    return executor.nodes().visible_to(cache(lambda project: unit.permissions.sees(f"project/{project}")))


def _view_of(node: Node, table: NodeTable, cluster: Cluster) -> NodeView:
    runs = [pod.run_id for pod in node.pods if table.visible_name(pod) is not None]
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
        # An overcommitted node has a negative free amount.
        free={name: show_amount(name, max(node.free(name), 0)) for name in node.capacity},
        runs=runs,
        others=len(node.pods) - len(runs),
    )


def _name_of(node: Node) -> str:
    return node.name


def find_run(unit: UnitOfWork, run_id: str, permission: Permission = Permission.VIEW) -> RunRecord:
    """Return a run. Raises `NotFound` if it is not visible, `Forbidden` if the caller lacks the permission."""
    record = unit.tx.get(RunRecord, id=run_id)
    if record is None or not unit.permissions.sees(record.scope):
        raise NotFound(f"run {short_repr(run_id)} does not exist")
    unit.require(permission, record.scope, f"run {short_repr(run_id)}")
    return record


def is_unscheduled(run: RunRecord) -> bool:
    """Whether a run is waiting in the server's queue or for a node on its cluster."""
    return (run.state == State.QUEUED and run.server_id is None) or (
        run.state == State.PENDING and run.reason in UNSCHEDULED_REASONS
    )

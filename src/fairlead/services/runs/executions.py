"""Executions of runs: attempts, logs, usage, files, results, events, uploads, nodes and the feed of changes."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import BinaryIO, TypeVar

from fairlead.adapters.outcomes import MAX_OUTCOME_BYTES, find_peaks, parse_outcome, read_result
from fairlead.errors import Conflict, Forbidden, NotFound, RequestRejected, Unauthenticated, Unavailable
from fairlead.lifecycle import attempts
from fairlead.lifecycle.attempts import attempt_of, execution_of, last_started_attempt, run_id_of
from fairlead.model.columns import Condition, Query
from fairlead.model.nodes import Node, NodeTable, Protection, taint_set_of
from fairlead.model.parsing import short_repr
from fairlead.model.plans import Violation
from fairlead.model.records import (
    JSON,
    AttemptRecord,
    AuditRecord,
    BlobRecord,
    EventRecord,
    OutcomeRecord,
    RunRecord,
    ServerRecord,
)
from fairlead.model.runs import LogEntry, LogPage, OutputFile, State
from fairlead.model.scopes import Cluster, Permission
from fairlead.planning import capacity
from fairlead.ports import Executor, Executors, Keyring, Principal
from fairlead.run_files import OUTPUT, load_size, measure_files, save_file
from fairlead.run_tokens import is_run_token, open_run_token
from fairlead.scheduling.reasons import show_amount
from fairlead.services.transactions.unit_of_work import Call, UnitOfWork, UnitOfWorkFactory

EPOCH = datetime.fromtimestamp(0, UTC)
# Reasons of pending runs whose pod has no node.
UNSCHEDULED_REASONS = ("Unschedulable", "SchedulerError", "Preempted", "Evicted", "NodeLost", "ProvisioningFailed")

MAX_CHANGES = 1000  # beyond this, the client reloads its list instead
DELETE_ACTIONS = ("run.delete", "project.delete")  # deleting a project deletes its runs
# Server clocks differ, and a change becomes visible shortly after its timestamp.
OVERLAP = timedelta(seconds=5)

RecordT = TypeVar("RecordT")

RESULT_FILES = ("result.json", "error.json")
# Uploads are limited because they are stored in the database; large data belongs in volumes. The sidecar has the same
# limits.
MAX_FILE_BYTES = 64 * 1024 * 1024
MAX_OUTPUT_BYTES = 256 * 1024 * 1024
MAX_OUTPUT_FILES = 10_000
MAX_PATH_BYTES = 1000
USE_VOLUME_HINT = "write it to a volume"


@dataclass(frozen=True)
class AttemptView:
    """One attempt of a run: the current one or an earlier one.

    `mem_bytes` is the memory request of all pods together.
    """

    number: int
    state: str
    reason: str
    message: str
    exit_code: int | None
    started_at: datetime | None
    finished_at: datetime | None
    mem_bytes: int
    error: JSON | None
    usage: JSON


@dataclass(frozen=True)
class AttemptHandle:
    """One attempt of a run and its executor. `record` is set only for attempts before the current one."""

    run: RunRecord
    number: int
    executor: Executor | None
    record: AttemptRecord | None = None

    @property
    def execution(self) -> str:
        """The attempt's ID in its executor."""
        return execution_of(self.run.id, self.number)

    @property
    def was_assigned(self) -> bool:
        """Whether a server was ever assigned to the attempt. If not, no executor has data about it."""
        return self.record is not None or self.run.server_id is not None


def find_attempt(
    unit: UnitOfWork, executors: Executors, server_id: str, run: RunRecord, attempt: int | None = None
) -> AttemptHandle:
    """Return an attempt of a run: the one with the given number, or by default the last one that started.

    Raises `NotFound` if it does not exist, and `Conflict` if its data is on another server's machine.
    """
    number = last_started_attempt(run) if attempt is None else attempt
    record = unit.tx.get(AttemptRecord, id=execution_of(run.id, number)) if number < run.attempt else None
    if number > run.attempt or number < 1 or (record is None and number < run.attempt):
        raise NotFound(f"attempt {number} of run {run.id} does not exist", f"use an attempt from 1 to {run.attempt}")
    cluster = None if run.cluster is None else unit.organization.clusters.get(run.cluster)
    owner_id = run.server_id if record is None else record.server_id
    # The log and files of a local attempt are in its server's data folder. Every server can read from clusters.
    if cluster is not None and cluster.executor == "local" and owner_id not in (None, server_id):
        other = unit.tx.get(ServerRecord, id=owner_id)
        server = f"{other.name} at {other.url}" if other is not None else "another server"
        subject = f"run {run.id}" if run.attempt == 1 else f"attempt {number} of run {run.id}"
        raise Conflict(f"{subject} belongs to {server}", "send the request to that server")
    return AttemptHandle(run, number, executors.find(cluster), record)


def list_attempts(unit: UnitOfWork, run: RunRecord) -> list[AttemptView]:
    """Return all attempts of a run, oldest first."""
    past = unit.tx.find(AttemptRecord, Condition("run_id", "=", run.id)) if run.attempt > 1 else []
    outcome = unit.tx.get(OutcomeRecord, id=run.id) or OutcomeRecord(id=run.id)
    current = (run.state, run.reason, run.message, run.exit_code, run.started_at, run.finished_at, run.mem_bytes)
    return [
        *(_view_of_attempt(attempt) for attempt in sorted(past, key=lambda attempt: attempt.number)),
        AttemptView(run.attempt, *current, error=outcome.error, usage=outcome.usage),
    ]


def _view_of_attempt(attempt: AttemptRecord) -> AttemptView:
    return AttemptView(**{name: getattr(attempt, name) for name in AttemptView.__dataclass_fields__})


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

    `protections` lists how the server's machine limits and isolates runs; it is empty for nodes of Kubernetes.
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
    protections: list[Protection]


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
        entries = [replace(entry, end=attempts.join_cursor(number, entry.end)) for entry in page.entries]
        if attempt is not None or not page.complete:
            return LogPage(entries, attempts.join_cursor(number, page.cursor), page.complete)
        # This is the current attempt. While the run is active, its log can grow, or another attempt can follow.
        if handle.record is None:
            return LogPage(entries, attempts.join_cursor(number, page.cursor), complete=not run.active)
        after = attempts.join_cursor(number + 1, 0)
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
                table = find_visible_nodes(unit, executor)
                if executor is None or table is None:
                    continue
                protections = list(executor.capabilities.protections.values())
                views += [_view_of_node(node, table, each, protections) for node in sorted(table, key=_name_of)]
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


def find_visible_nodes(unit: UnitOfWork, executor: Executor | None) -> NodeTable | None:
    """Return an executor's nodes with the names of visible runs only; None if they are unknown."""
    try:
        return None if executor is None else load_visible_nodes(unit, executor)
    except Unavailable:
        return None


def load_visible_nodes(unit: UnitOfWork, executor: Executor) -> NodeTable:
    """Return an executor's nodes with the names of visible runs only. Raises `Unavailable` if they are unknown."""
    return executor.nodes().visible_to(cache(unit.sees_project))


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


def _resolve_cursor(run: RunRecord, cursor: int | None, attempt: int | None) -> tuple[int, int]:
    """Return the attempt to read, and the position in its log to start from."""
    if cursor is None:
        return attempts.last_started_attempt(run) if attempt is None else attempt, 0
    number, position = attempts.split_cursor(cursor)
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
        raise _invalid_cursor(attempts.join_cursor(handle.number, position), str(error)) from None


def _attempt_separator(ended: AttemptRecord, end: int) -> LogEntry:
    """Return the line between the logs of two attempts."""
    text = f"attempt {ended.number} failed ({ended.reason}): {ended.message}; attempt {ended.number + 1} follows\n"
    return LogEntry(ended.finished_at or EPOCH, "platform", text.encode(), end)


def _invalid_cursor(cursor: int, problem: str) -> RequestRejected:
    violation = Violation(
        "cursor", "cursor", f"{cursor}: {problem}", "use the cursor from the previous page, or omit it"
    )
    return RequestRejected([violation])


def _view_of_node(node: Node, table: NodeTable, cluster: Cluster, protections: list[Protection]) -> NodeView:
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
        protections=protections,
    )


def _name_of(node: Node) -> str:
    return node.name


@dataclass(frozen=True)
class RunChanges:
    """Changes up to a point in time. `reload` means that there are too many to list, so the client must reload."""

    at: datetime
    runs: list[RunRecord] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)
    reload: bool = False


class RunFeed:
    """Reads run changes for event streams."""

    def __init__(self, units: UnitOfWorkFactory) -> None:
        self.units = units

    def begin(self, call: Call, scope: str | None = None) -> RunChanges:
        """Return an empty feed that starts now. Raises `NotFound` if the scope is not visible."""
        with self.units.reading(call) as unit:
            unit.scope_conditions(scope)
            return RunChanges(unit.now)

    def load_runs(self, call: Call, scope: str | None, run_ids: Sequence[str]) -> list[RunRecord]:
        """Return the current state of the given runs that are visible to the caller."""
        with self.units.reading(call) as unit:
            first_ids = tuple(run_ids[:MAX_CHANGES])
            return unit.tx.find(RunRecord, Condition("id", "in", first_ids), *unit.scope_conditions(scope))

    def poll(self, call: Call, scope: str | None, since: datetime) -> RunChanges:
        """Return the changes made by all servers since a point in time. May repeat earlier changes."""
        with self.units.reading(call) as unit:
            # Raises if the role was revoked, which ends the stream.
            unit.scope_conditions(scope)
            runs = _find_since(unit, RunRecord, "updated_at", since)
            entries = _find_since(unit, AuditRecord, "at", since, Condition("action", "in", DELETE_ACTIONS))
            changed = [run for run in runs if _is_included(unit, run.scope, scope)]
            deleted = [
                entry.object_id for entry in entries if _is_included(unit, entry.scope, scope) and entry.kind == "run"
            ]
            # A project's audit entry does not list the runs that were deleted with it.
            reload = len(runs) > MAX_CHANGES or any(entry.kind == "project" for entry in entries)
            return RunChanges(unit.now, reload=True) if reload else RunChanges(unit.now, changed, deleted)


def _find_since(unit: UnitOfWork, kind: type[RecordT], column: str, since: datetime, *more: Condition) -> list[RecordT]:
    """Find records by time only: with scope conditions, databases would scan the whole table."""
    since = min(since, unit.now)  # the clock may have been set back
    conditions = (Condition(column, ">", since - OVERLAP), *more)
    return unit.tx.page(kind, Query(conditions, sort=column, limit=MAX_CHANGES + 1)).items


def _is_included(unit: UnitOfWork, scope: str, requested: str | None) -> bool:
    return unit.permissions.sees(scope) if requested is None else scope == requested


@dataclass(frozen=True)
class UploadedFile:
    """A file that a run uploaded."""

    path: str
    size: int


class RunUploads:
    """Serves code to runs and stores the files that they upload."""

    def __init__(self, units: UnitOfWorkFactory, keyring: Keyring) -> None:
        self.units, self.keyring = units, keyring

    def authenticate(self, call: Call, run_id: str) -> None:
        """Raise an error unless the caller has the run's token and the run is active."""
        with self._authenticated(self.units.reading, call, run_id):
            pass

    def code(self, call: Call, run_id: str) -> bytes:
        """Return the code of the run as a tar.gz archive."""
        with self._authenticated(self.units.reading, call, run_id) as (unit, run):
            blob = None if run.code is None else unit.tx.get(BlobRecord, id=run.code)
            if blob is None:
                raise NotFound(f"run {run_id} has no code")
            return blob.content

    def put(self, call: Call, run_id: str, path: str, content: BinaryIO) -> UploadedFile:
        """Store a file for the run, replacing any file with the same path."""
        check_path(path)
        if path in RESULT_FILES:
            _check_result_file(path, content)
        with self._authenticated(self.units.recording, call, run_id) as (unit, run):
            execution = execution_of(run_id, run.attempt)
            if path not in RESULT_FILES:
                _check_output_limits(unit, execution, path, _measure(content))
            file = save_file(unit.tx, execution, path, content, unit.now)
            return UploadedFile(file.path, file.size)

    @contextlib.contextmanager
    def _authenticated(
        self, open_unit: Callable[[Call], AbstractContextManager[UnitOfWork]], call: Call, run_id: str
    ) -> Iterator[tuple[UnitOfWork, RunRecord]]:
        """Open a unit of work as a run's current attempt. User tokens get the same errors as when reading a run."""
        if not is_run_token(call.bearer):
            with self.units.reading(call) as unit:
                find_run(unit, run_id)
            raise Forbidden(f"only run {run_id} itself can upload its files", "read its files instead")
        execution = open_run_token(self.keyring, call.bearer or "")
        # A run that does not exist causes the same error, so that a token cannot be used to discover other runs.
        if run_id_of(execution) != run_id:
            raise NotFound(f"run {short_repr(run_id)} does not exist")
        with open_unit(replace(call, principal=Principal(f"run/{run_id}", via="run-token"))) as unit:
            run = unit.tx.get(RunRecord, id=run_id)
            if run is None:
                raise NotFound(f"run {short_repr(run_id)} does not exist")
            if attempt_of(execution) != run.attempt:
                message = f"attempt {attempt_of(execution)} of run {run_id} has ended, so its token has expired"
                raise Unauthenticated(message, "stop uploading: the files of this attempt are complete")
            if not run.active or run.server_id is None:
                message = f"run {run_id} is {run.state}, so its token has expired"
                raise Unauthenticated(message, "stop uploading: the files of this run are complete")
            yield unit, run


def check_path(path: str) -> None:
    """Raise `RequestRejected` if a run may not upload a file with this path."""
    problem = ""
    parts = path.split("/")
    if path not in RESULT_FILES and (parts[0] != OUTPUT.rstrip("/") or len(parts) < 2):
        problem = f"invalid path {short_repr(path)}: it is neither a result file nor in {OUTPUT}"
    elif any(part in ("", ".", "..") or "\0" in part for part in parts):
        problem = f"invalid path {short_repr(path)}: it is not inside {OUTPUT}"
    # Such a path cannot be encoded as UTF-8, either here or in the database.
    elif any("\ud800" <= character <= "\udfff" for character in path):
        problem = "the path contains an unpaired surrogate"
    elif len(path.encode()) > MAX_PATH_BYTES:
        problem = f"the path has {len(path.encode()):,} bytes; at most {MAX_PATH_BYTES:,} are allowed"
    if problem:
        hint = f"use {' or '.join(RESULT_FILES)}, or a path in {OUTPUT} with at most {MAX_PATH_BYTES:,} bytes"
        raise RequestRejected([Violation("path", "path", problem, hint)])


def _check_result_file(path: str, content: BinaryIO) -> None:
    """Raise `RequestRejected` if a result or error is too large or was not written by the bootstrap program."""
    size = _measure(content)
    if size > MAX_OUTCOME_BYTES:
        message = f"{path} has {size:,} bytes; at most {MAX_OUTCOME_BYTES:,} are allowed"
        raise RequestRejected(
            [Violation("body", "max", message, f"{USE_VOLUME_HINT}, or to a file in the output folder")]
        )
    data = parse_outcome(content.read())
    parsed = read_result(data) if path == "result.json" else data
    if parsed is None:
        message = f"is not a valid {path.partition('.')[0]} from the bootstrap program"
        raise RequestRejected([Violation("body", "json", message, f"upload other files to {OUTPUT}")])


def _check_output_limits(unit: UnitOfWork, execution: str, path: str, size: int) -> None:
    """Raise `RequestRejected` if an attempt's output exceeds a limit.

    Concurrent uploads may exceed a limit once, because they do not see each other.
    """
    before, run_name = load_size(unit.tx, execution, path), attempts.describe_execution(execution)
    count, total = measure_files(unit.tx, execution, OUTPUT)
    # An upload replaces the file with the same path, so its size does not count twice.
    total -= before or 0
    if before is None and count >= MAX_OUTPUT_FILES:
        message = f"{run_name} has already uploaded {count:,} files; at most {MAX_OUTPUT_FILES:,} are allowed"
        raise RequestRejected([Violation("path", "max", message, "pack them into one file, or use a volume")])
    if total + size > MAX_OUTPUT_BYTES:
        message = f"has {size:,} bytes, and {run_name} has uploaded {total:,}; at most {MAX_OUTPUT_BYTES:,} are allowed"
        raise RequestRejected([Violation("body", "max", message, USE_VOLUME_HINT)])


def _measure(content: BinaryIO) -> int:
    size = content.seek(0, 2)
    content.seek(0)
    return size

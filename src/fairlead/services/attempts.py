"""Attempts of a run. Each attempt may belong to a different server."""

from dataclasses import dataclass
from datetime import datetime

from fairlead.errors import Conflict, NotFound
from fairlead.lifecycle.attempts import execution_of, last_started_attempt
from fairlead.model.columns import Condition
from fairlead.model.records import JSON, AttemptRecord, OutcomeRecord, RunRecord, ServerRecord
from fairlead.ports import Executor, Executors
from fairlead.services.unit_of_work import UnitOfWork


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
        *(_view_of(attempt) for attempt in sorted(past, key=lambda attempt: attempt.number)),
        AttemptView(run.attempt, *current, error=outcome.error, usage=outcome.usage),
    ]


def _view_of(attempt: AttemptRecord) -> AttemptView:
    return AttemptView(**{name: getattr(attempt, name) for name in AttemptView.__dataclass_fields__})

"""Tries of a run as its reader sees them, and who knows of each: one may have been executed elsewhere than the next."""

from dataclasses import dataclass
from datetime import datetime

from fairlead.core.attempts import execution_of, last_started_attempt
from fairlead.errors import Conflict, NotFound
from fairlead.model.queries import Condition
from fairlead.model.records import JSON, AttemptRecord, OutcomeRecord, RunRecord, ServerRecord
from fairlead.ports import Executor, Executors
from fairlead.services.unit_of_work import UnitOfWork


@dataclass(frozen=True)
class AttemptView:
    """One try of a run: the present one as far as it is, those before it as they ended.

    `mem_bytes`: what it requests of memory, all its pods together.
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
    """One try of a run, and what executes or executed it. `record`: how it ended, where another one came after it."""

    run: RunRecord
    number: int
    executor: Executor | None
    record: AttemptRecord | None = None

    @property
    def execution(self) -> str:
        """How its executor knows it."""
        return execution_of(self.run.id, self.number)

    @property
    def has_place(self) -> bool:
        """Whether anything of it was ever given to an executor."""
        return self.record is not None or self.run.server_id is not None


def find_attempt(
    unit: UnitOfWork, executors: Executors, server_id: str, run: RunRecord, attempt: int | None = None
) -> AttemptHandle:
    """A try of a run; without a number, the last that was given a place. Raise `NotFound` where there is none.

    Raise `Conflict` where only another machine knows of it, and say which.
    """
    number = last_started_attempt(run) if attempt is None else attempt
    record = unit.tx.get(AttemptRecord, id=execution_of(run.id, number)) if number < run.attempt else None
    if number > run.attempt or number < 1 or (record is None and number < run.attempt):
        raise NotFound(f"run {run.id} has no attempt {number}", f"it has {run.attempt}: list them to see how they went")
    cluster = None if run.cluster is None else unit.organization.clusters.get(run.cluster)
    owner_id = run.server_id if record is None else record.server_id
    if cluster is not None and cluster.executor == "local" and owner_id not in (None, server_id):
        other = unit.tx.get(ServerRecord, id=owner_id)
        where = f"{other.name}, at {other.url}" if other is not None else "another machine"
        what = f"run {run.id}" if run.attempt == 1 else f"attempt {number} of run {run.id}"
        raise Conflict(f"{what} is executed by {where}", "ask that server")
    return AttemptHandle(run, number, executors.find(cluster), record)


def list_attempts(unit: UnitOfWork, run: RunRecord) -> list[AttemptView]:
    """All tries of a run, the first one first; the present one last."""
    past = unit.tx.find(AttemptRecord, Condition("run_id", "=", run.id)) if run.attempt > 1 else []
    kept = unit.tx.get(OutcomeRecord, id=run.id) or OutcomeRecord(id=run.id)
    ended = (run.state, run.reason, run.message, run.exit_code, run.started_at, run.finished_at, run.mem_bytes)
    return [
        *(_view_of(attempt) for attempt in sorted(past, key=lambda attempt: attempt.number)),
        AttemptView(run.attempt, *ended, error=kept.error, usage=kept.usage),
    ]


def _view_of(attempt: AttemptRecord) -> AttemptView:
    return AttemptView(**{name: getattr(attempt, name) for name in AttemptView.__dataclass_fields__})

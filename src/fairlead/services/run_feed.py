"""Feed of run changes: runs that were created, changed or deleted since a point in time."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TypeVar

from fairlead.model.columns import Condition, Query
from fairlead.model.records import AuditRecord, RunRecord
from fairlead.services.calls import Call
from fairlead.services.unit_of_work import UnitOfWork, UnitOfWorkFactory

MAX_CHANGES = 1000  # beyond this, the client reloads its list instead
DELETE_ACTIONS = ("run.delete", "project.delete")  # deleting a project deletes its runs
# Server clocks differ, and a change becomes visible shortly after its timestamp.
OVERLAP = timedelta(seconds=5)

RecordT = TypeVar("RecordT")


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

"""What changes while somebody looks: runs that are there now, or are other than they were, and those that are gone."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TypeVar

from fairlead.model.queries import Condition, Query
from fairlead.model.records import AuditRecord, RunRecord
from fairlead.services.calls import Call
from fairlead.services.unit_of_work import UnitOfWork, UnitOfWorkFactory

MOST_AT_ONCE = 1000
GOING = ("run.delete", "project.delete")  # a project takes its ended runs along
# Servers have clocks of their own, and what was changed is there a moment after its time.
OVERLAP = timedelta(seconds=5)

RecordT = TypeVar("RecordT")


@dataclass(frozen=True)
class RunChanges:
    """What changed up to a moment. `many`: too much to tell, and lists are better read anew."""

    at: datetime
    runs: list[RunRecord] = field(default_factory=list)
    gone: list[str] = field(default_factory=list)
    many: bool = False


class RunFeed:
    """The use cases of looking on."""

    def __init__(self, units: UnitOfWorkFactory) -> None:
        self.units = units

    def begin(self, call: Call, scope: str | None = None) -> RunChanges:
        """Nothing yet: what follows is new from here on."""
        with self.units.reading(call) as unit:
            unit.within(scope)
            return RunChanges(unit.now)

    def load(self, call: Call, scope: str | None, run_ids: Sequence[str]) -> list[RunRecord]:
        """Of some runs those that the caller sees, as they are now."""
        with self.units.reading(call) as unit:
            some = tuple(run_ids[:MOST_AT_ONCE])
            return unit.tx.find(RunRecord, Condition("id", "in", some), *unit.within(scope))

    def look(self, call: Call, scope: str | None, since: datetime) -> RunChanges:
        """What changed since a moment, whichever server changed it; some of it may have been told before."""
        with self.units.reading(call) as unit:
            unit.within(scope)
            runs = _find_since(unit, RunRecord, "updated_at", since)
            entries = _find_since(unit, AuditRecord, "at", since, Condition("action", "in", GOING))
            seen = [run for run in runs if _is_seen(unit, run.scope, scope)]
            gone = [entry.object_id for entry in entries if _is_seen(unit, entry.scope, scope) and entry.kind == "run"]
            many = len(runs) > MOST_AT_ONCE or any(entry.kind == "project" for entry in entries)
            return RunChanges(unit.now, many=True) if many else RunChanges(unit.now, seen, gone)


def _find_since(unit: UnitOfWork, kind: type[RecordT], column: str, since: datetime, *more: Condition) -> list[RecordT]:
    """What changed, by its time alone: with the scopes of the caller, databases would look at all that is there."""
    since = min(since, unit.now)  # the clock may have been set back meanwhile
    conditions = (Condition(column, ">", since - OVERLAP), *more)
    return unit.tx.page(kind, Query(conditions, sort=column, limit=MOST_AT_ONCE + 1)).items


def _is_seen(unit: UnitOfWork, scope: str, wanted: str | None) -> bool:
    return unit.permissions.sees(scope) if wanted is None else scope == wanted

"""The store in memory: the contract of stores as plain Python, for tests that need no database."""

import contextlib
import operator
import pickle
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import fields, replace
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any

import msgspec

from fairlead.errors import Changed, Conflict
from fairlead.model import records
from fairlead.model.columns import COLUMNS, fold
from fairlead.model.queries import Condition, Page, Query
from fairlead.ports import ConfigPart, Generation, RecordT

Shelves = Mapping[type, MutableMapping[str, Any]]  # records by their ids, by kind

UNIQUE: Mapping[type, tuple[tuple[str, ...], ...]] = {
    records.ScopeRecord: (("scope",),),
    records.ComputeResourceRecord: (("name",),),
    records.TemplateRecord: (("name",),),
    records.RevisionRecord: (("object_id", "number"),),
    records.PolicyRecord: (("scope",),),
    records.SecretRecord: (("scope", "name"),),
    records.VolumeRecord: (("scope", "name"),),
    records.FunctionRecord: (("scope", "name"),),
    records.GrantRecord: (("subject", "role", "scope"),),
    records.TokenRecord: (("digest",),),
    records.RunRecord: (),
    records.AttemptRecord: (),
    records.ScheduleRecord: (("scope", "name"),),
    records.PlanRecord: (),
    records.EventRecord: (),
    records.OutcomeRecord: (),
    records.RunFileRecord: (),
    records.FilePartRecord: (),
    records.CodeRecord: (),
    records.BlobRecord: (),
    records.ServerRecord: (),
    records.AuditRecord: (),
    records.IdempotencyRecord: (),
    records.SettingsRecord: (),
}
# Fields that refer to a scope. The audit keeps the former name of a renamed scope.
REFERENCES: Mapping[type, tuple[str, ...]] = {
    kind: tuple(field.name for field in fields(kind) if field.name in ("scope", "parent", "cluster"))
    for kind in UNIQUE
    if kind is not records.AuditRecord
} | {records.ScopeRecord: ("parent",), records.AuditRecord: ()}
# Dependent records: the kind of the parent, and the field that refers to it.
PARTS: Mapping[type, tuple[type, str]] = {
    records.AttemptRecord: (records.RunRecord, "run_id"),
    records.PlanRecord: (records.RunRecord, "id"),
    records.EventRecord: (records.RunRecord, "run_id"),
    records.OutcomeRecord: (records.RunRecord, "id"),
    records.RunFileRecord: (records.RunRecord, "run_id"),
    records.FilePartRecord: (records.RunFileRecord, "file_id"),
}
APPEND_ONLY = (records.AuditRecord, records.RevisionRecord)
SIGNS: Mapping[str, Callable[[Any, Any], Any]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


class MemoryStore:
    """Records in memory. A transaction works on copies of the shelves, which take their place when it ends well."""

    def __init__(self) -> None:
        self._one_writer = threading.Lock()
        self._now: tuple[Shelves, Generation] = {kind: {} for kind in UNIQUE}, Generation(1, 1)

    @contextlib.contextmanager
    def reading(self) -> Iterator["MemoryTransaction"]:
        """A look at the store as it is at one moment."""
        shelves, generation = self._now
        looked_at: Any = {kind: MappingProxyType(shelf) for kind, shelf in shelves.items()}
        yield MemoryTransaction(looked_at, generation)

    def recording(self, *, exclusive: bool = False) -> AbstractContextManager["MemoryTransaction"]:  # noqa: ARG002
        """A transaction that depends on the configuration, which cannot change meanwhile."""
        return self._writing()

    def changing(self, part: ConfigPart, *more: ConfigPart) -> AbstractContextManager["MemoryTransaction"]:
        """A change of parts of the configuration, one at a time."""
        return self._writing(part, *more)

    def close(self) -> None:
        """There is nothing to let go of."""

    @contextlib.contextmanager
    def _writing(self, *parts: ConfigPart) -> Iterator["MemoryTransaction"]:
        with self._one_writer:
            shelves, generation = self._now
            grown = replace(generation, **{part: getattr(generation, part) + 1 for part in parts})
            tx = MemoryTransaction({kind: dict(shelf) for kind, shelf in shelves.items()}, grown)
            yield tx
            if tx.refused:
                raise RuntimeError("a database would not commit a transaction after a conflict")
            self._now = tx.shelves, tx.generation


class MemoryTransaction:
    """One transaction: what it changes, it changes on its own shelves."""

    def __init__(self, shelves: Shelves, generation: Generation) -> None:
        self.shelves = shelves
        self.generation = generation
        self.refused = False  # whether a record violated a constraint

    def get(self, kind: type[RecordT], **key: Any) -> RecordT | None:
        """The one record whose fields have these values."""
        return next(iter(self.find(kind, *(Condition(name, "=", value) for name, value in key.items()))), None)

    def find(
        self, kind: type[RecordT], *conditions: Condition, by: str = "id", limit: int | None = None
    ) -> list[RecordT]:
        """Records for which all conditions hold, in the order of one of their texts; without one, oldest first."""
        return sorted(self._matching(kind, conditions), key=operator.attrgetter(by, "id"))[:limit]

    def page(self, kind: type[RecordT], query: Query) -> Page[RecordT]:
        """One page of a list; its cursor is left for the caller to make."""

        def place(record: Any) -> tuple[Any, str]:
            column = COLUMNS[kind][query.sort] if query.sort != "id" else None
            return record.id if column is None else column.sort_value(column.of(record)), record.id

        found = self._matching(kind, query.conditions, query.search)
        if query.after is not None:
            beyond = operator.lt if query.descending else operator.gt
            found = [record for record in found if beyond(place(record), query.after)]
        return Page(sorted(found, key=place, reverse=query.descending)[: query.limit])

    def count(self, kind: type[Any], *conditions: Condition, search: str = "") -> int:
        """How many records there are for which all conditions hold."""
        return len(self._matching(kind, conditions, search))

    def tally(self, kind: type[Any], names: Sequence[str], *conditions: Condition) -> dict[tuple[Any, ...], int]:
        """How many records there are for which all conditions hold, by the values of some of their fields."""
        return dict(Counter(tuple(getattr(item, name) for name in names) for item in self._matching(kind, conditions)))

    def add(self, record: Any) -> None:
        """Add a record. Raise `Conflict` if its name or id is taken."""
        self._check(record, unique=(("id",), *UNIQUE[type(record)]), others=self.shelves[type(record)].values())
        self.shelves[type(record)][record.id] = _as_kept(record)

    def save(self, record: Any) -> None:
        """Keep a changed record. Raise `Changed` unless its revision is the next after the kept one."""
        shelf = self.shelves[type(record)]
        before = shelf.get(record.id)
        if before is None or before.revision != record.revision - 1:
            raise Changed("someone else changed it at the same time", "read it again, then repeat the change")
        others = [other for other in shelf.values() if other is not before]
        self._check(record, unique=UNIQUE[type(record)], others=others)
        shelf[record.id] = _as_kept(record)
        if isinstance(record, records.ScopeRecord):
            self._follow(before.scope, record.scope)

    def remove(self, record: Any) -> None:
        """Forget a record."""
        self.remove_all(type(record), Condition("id", "=", record.id))

    def remove_all(self, kind: type[Any], *conditions: Condition) -> int:
        """Forget all records for which the conditions hold; how many there were."""
        gone = {record.id: record for record in self._matching(kind, conditions)}
        if gone and kind in APPEND_ONLY:
            raise Conflict("it is append-only")
        if kind is records.ScopeRecord:
            scopes = {place.scope for place in gone.values()}
            if any(named in scopes for record, _, named in self._references() if gone.get(record.id) != record):
                raise Conflict("it is still in use", "remove everything that uses it first")
        for id in gone:
            del self.shelves[kind][id]
            self._forget_parts(kind, id)
        return len(gone)

    def _forget_parts(self, of: type, whole: str) -> None:
        for kind, (owner, name) in PARTS.items():
            shelf = self.shelves[kind]
            for id in [id for id, part in shelf.items() if owner is of and getattr(part, name) == whole]:
                del shelf[id]
                self._forget_parts(kind, id)

    def rename_scope(self, old: str, new: str) -> None:
        """Give a place a new name: whatever names it as its scope, parent or cluster follows."""
        scopes = {place.scope: place for place in self.shelves[records.ScopeRecord].values()}
        if old in scopes and old != new:
            if new in scopes:
                raise Conflict(f"{new} already exists", "choose another name")
            self.shelves[records.ScopeRecord][scopes[old].id] = replace(scopes[old], scope=new)
            self._follow(old, new)

    def move_to_cluster(self, scopes: Sequence[str], cluster: str | None) -> None:
        """Set the cluster of the compute resources and templates at these scopes, without a new revision."""
        for kind in (records.ComputeResourceRecord, records.TemplateRecord):
            there = {id: record for id, record in self.shelves[kind].items() if record.scope in scopes}
            self.shelves[kind].update({id: replace(record, cluster=cluster) for id, record in there.items()})

    def _matching(self, kind: type[RecordT], conditions: Iterable[Condition], search: str = "") -> list[RecordT]:
        found = map(self._derived, self.shelves[kind].values())
        sought = [name for name, column in COLUMNS.get(kind, {}).items() if column.searched and search]
        return [
            pickle.loads(pickle.dumps(record))  # a copy, which its reader may change
            for record in found
            if all(_holds(record, condition) for condition in conditions)
            and (not search or any(_contains(getattr(record, name), search) for name in sought))
        ]

    def _derived(self, record: Any) -> Any:
        """A record with what is worked out when it is read."""
        derived: dict[str, Any] = {}
        if isinstance(record, records.ComputeResourceRecord | records.TemplateRecord):
            by = "template_id" if isinstance(record, records.TemplateRecord) else "compute_resource_id"
            runs = [run for run in self.shelves[records.RunRecord].values() if getattr(run, by) == record.id]
            derived["workloads"] = sum(run.active for run in runs)
            derived["last_used_at"] = max((run.created_at for run in runs), default=None)
        if isinstance(record, records.ComputeResourceRecord):
            templates = self.shelves[records.TemplateRecord].values()
            derived["templates"] = sum(template.compute_resource == record.name for template in templates)
        if isinstance(record, records.FunctionRecord):
            every = self.shelves[records.RunRecord].values()
            runs = [run for run in every if (run.scope, run.function) == (record.scope, record.name)]
            derived = {"runs": len(runs), "last_run_at": max((run.created_at for run in runs), default=None)}
        return replace(record, **derived) if derived else record

    def _check(self, record: Any, unique: Iterable[tuple[str, ...]], others: Iterable[Any]) -> None:
        called = getattr(record, "name", None) or getattr(record, "scope", record.id)
        taken = [operator.attrgetter(*names) for names in unique]
        if any(value(other) == value(record) for other in others for value in taken):
            self.refused = True
            raise Conflict(f"{called} already exists", "choose another name")
        scopes = {place.scope for place in self.shelves[records.ScopeRecord].values()} | {None}
        homeless = not {getattr(record, name) for name in REFERENCES[type(record)]} <= scopes
        owner, name = PARTS.get(type(record), (None, "id"))
        if homeless or (owner is not None and getattr(record, name) not in self.shelves[owner]):
            self.refused = True
            raise Conflict(f"the scope of {called} was deleted", "read the tree again")

    def _references(self) -> Iterator[tuple[Any, str, str]]:
        """Every record that names a place, with the field in which it does so and the place."""
        for kind, names in REFERENCES.items():
            for record in tuple(self.shelves[kind].values()):
                yield from ((record, name, getattr(record, name)) for name in names)

    def _follow(self, old: str, new: str) -> None:
        for record, name, named in self._references():
            if named == old:
                shelf = self.shelves[type(record)]
                shelf[record.id] = replace(shelf[record.id], **{name: new})


def _as_kept(record: Any) -> Any:
    """A record as databases give it back: moments in UTC, JSON of its own, and nothing that is worked out."""
    return replace(
        record,
        **{
            field.name: field.default if field.name in record.DERIVED else _plain(getattr(record, field.name))
            for field in fields(record)
        },
    )


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.astimezone(UTC)
    return msgspec.json.decode(msgspec.json.encode(value)) if isinstance(value, dict | list | tuple) else value


def _holds(record: Any, condition: Condition) -> bool:
    column = COLUMNS.get(type(record), {}).get(condition.column)
    value = getattr(record, condition.column) if column is None else column.of(record)
    match condition.operator:
        case "=":
            return bool(value == condition.value)
        case "!=":
            return bool(value != condition.value)
        case "contains":
            return _contains(value, condition.value)
        case "in":
            return value is not None and value in condition.value
        case "until":
            return value is None or bool(value <= condition.value)
        case sign:
            return value is not None and condition.value is not None and bool(SIGNS[sign](value, condition.value))


def _contains(value: str | None, part: str) -> bool:
    return value is not None and fold(part) in fold(value)

"""An in-memory store for tests that need no database."""

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

from fairlead.errors import Changed, Conflict, name_taken
from fairlead.model import records
from fairlead.model.columns import COLUMNS, Condition, Page, Query, fold
from fairlead.ports import ConfigPart, Generation, RecordT

RecordTables = Mapping[type, MutableMapping[str, Any]]  # the records of each kind by ID

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
# Fields that refer to a scope. The audit log keeps a renamed scope's former name.
REFERENCES: Mapping[type, tuple[str, ...]] = {
    kind: tuple(field.name for field in fields(kind) if field.name in ("scope", "parent", "cluster", "default_cluster"))
    for kind in UNIQUE
    if kind is not records.AuditRecord
} | {records.ScopeRecord: ("parent",), records.AuditRecord: ()}
# Dependent records: the kind of the parent, and the field that refers to it.
PARENTS: Mapping[type, tuple[type, str]] = {
    records.AttemptRecord: (records.RunRecord, "run_id"),
    records.PlanRecord: (records.RunRecord, "id"),
    records.EventRecord: (records.RunRecord, "run_id"),
    records.OutcomeRecord: (records.RunRecord, "id"),
    records.RunFileRecord: (records.RunRecord, "run_id"),
    records.FilePartRecord: (records.RunFileRecord, "file_id"),
}
APPEND_ONLY = (records.AuditRecord, records.RevisionRecord)
COMPARISONS: Mapping[str, Callable[[Any, Any], Any]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


class MemoryStore:
    """Records in memory. A transaction works on copies of the tables, which replace them on commit."""

    def __init__(self) -> None:
        self._write_lock = threading.Lock()
        self._committed: tuple[RecordTables, Generation] = {kind: {} for kind in UNIQUE}, Generation(1, 1)

    @contextlib.contextmanager
    def reading(self) -> Iterator["MemoryTransaction"]:
        """A read transaction on a snapshot."""
        tables, generation = self._committed
        read_only: Any = {kind: MappingProxyType(table) for kind, table in tables.items()}
        yield MemoryTransaction(read_only, generation)

    def recording(self, *, exclusive: bool = False) -> AbstractContextManager["MemoryTransaction"]:  # noqa: ARG002
        """A transaction during which the configuration cannot change."""
        return self._writing()

    def changing(self, part: ConfigPart, *more: ConfigPart) -> AbstractContextManager["MemoryTransaction"]:
        """A transaction that changes parts of the configuration. Only one can run at a time."""
        return self._writing(part, *more)

    def close(self) -> None:
        """There is nothing to close."""

    @contextlib.contextmanager
    def _writing(self, *parts: ConfigPart) -> Iterator["MemoryTransaction"]:
        with self._write_lock:
            tables, generation = self._committed
            next_generation = replace(generation, **{part: getattr(generation, part) + 1 for part in parts})
            tx = MemoryTransaction({kind: dict(table) for kind, table in tables.items()}, next_generation)
            yield tx
            if tx.failed:
                raise RuntimeError("a database would not commit a transaction after a conflict")
            self._committed = tx.tables, tx.generation


class MemoryTransaction:
    """A transaction on its own copy of the tables."""

    def __init__(self, tables: RecordTables, generation: Generation) -> None:
        self.tables = tables
        self.generation = generation
        self.failed = False  # whether a record violated a constraint

    def get(self, kind: type[RecordT], **key: Any) -> RecordT | None:
        """The single record whose fields have these values."""
        return next(iter(self.find(kind, *(Condition(name, "=", value) for name, value in key.items()))), None)

    def find(
        self, kind: type[RecordT], *conditions: Condition, by: str = "id", limit: int | None = None
    ) -> list[RecordT]:
        """Records that match all conditions, sorted by a text field, or oldest first."""
        return sorted(self._matching(kind, conditions), key=operator.attrgetter(by, "id"))[:limit]

    def scan_end(self, kind: type[Any], query: Query, most: int) -> tuple[Any, str] | None:
        """Where to end a page that examines records one by one, which are all pages with conditions but the scope."""
        scopes = tuple(condition for condition in query.conditions if condition.column == "scope")
        if not query.search and scopes == query.conditions:
            return None
        window = self.page(kind, replace(query, search="", conditions=scopes, limit=most + 1)).items
        if len(window) <= most:
            return None
        column, last = COLUMNS[kind].get(query.sort), window[most - 1]
        return (last.id if column is None else column.sort_value(column.of(last))), last.id

    def page(self, kind: type[RecordT], query: Query) -> Page[RecordT]:
        """One page of a list. The caller creates the cursor for the next page."""

        def sort_key(record: Any) -> tuple[Any, str]:
            column = COLUMNS[kind][query.sort] if query.sort != "id" else None
            return record.id if column is None else column.sort_value(column.of(record)), record.id

        matching = self._matching(kind, query.conditions, query.search)
        if query.after is not None:
            is_after = operator.lt if query.descending else operator.gt
            matching = [record for record in matching if is_after(sort_key(record), query.after)]
        if query.until is not None:
            is_until = operator.ge if query.descending else operator.le
            matching = [record for record in matching if is_until(sort_key(record), query.until)]
        return Page(sorted(matching, key=sort_key, reverse=query.descending)[: query.limit])

    def count(self, kind: type[Any], *conditions: Condition, search: str = "") -> int:
        """The number of records that match all conditions."""
        return len(self._matching(kind, conditions, search))

    def tally(self, kind: type[Any], names: Sequence[str], *conditions: Condition) -> dict[tuple[Any, ...], int]:
        """The number of records that match all conditions, grouped by the values of the given fields."""
        return dict(Counter(tuple(getattr(item, name) for name in names) for item in self._matching(kind, conditions)))

    def first_of_groups(
        self, kind: type[RecordT], names: Sequence[str], *conditions: Condition, by: str, most: int
    ) -> list[RecordT]:
        """The first record of each group of records with equal values, and at most `most` groups per first value."""
        firsts: dict[tuple[Any, ...], RecordT] = {}
        for record in self.find(kind, *conditions, by=by):
            firsts.setdefault(tuple(getattr(record, name) for name in names), record)
        seen = Counter[Any]()
        chosen: list[RecordT] = []
        for (value, *_), record in firsts.items():
            seen[value] += 1
            if seen[value] <= most:
                chosen.append(record)
        return chosen

    def now(self, otherwise: datetime) -> datetime:
        """Memory has no clock."""
        return otherwise

    def add(self, record: Any) -> None:
        """Add a record. Raise `Conflict` if its name or ID is taken."""
        self._check(record, unique=(("id",), *UNIQUE[type(record)]), others=self.tables[type(record)].values())
        self.tables[type(record)][record.id] = _as_stored(record)

    def save(self, record: Any) -> None:
        """Save a changed record. Raise `Changed` unless its revision follows the stored one."""
        table = self.tables[type(record)]
        before = table.get(record.id)
        if before is None or before.revision != record.revision - 1:
            raise Changed(
                "another request changed this object at the same time", "read it again, then repeat the change"
            )
        others = [other for other in table.values() if other is not before]
        self._check(record, unique=UNIQUE[type(record)], others=others)
        table[record.id] = _as_stored(record)
        if isinstance(record, records.ScopeRecord):
            self._update_references(before.scope, record.scope)

    def remove(self, record: Any) -> None:
        """Remove a record."""
        self.remove_all(type(record), Condition("id", "=", record.id))

    def remove_all(self, kind: type[Any], *conditions: Condition) -> int:
        """Remove all records that match the conditions, and return their number."""
        removed = {record.id: record for record in self._matching(kind, conditions)}
        if removed and kind in APPEND_ONLY:
            raise Conflict("it is append-only")
        if kind is records.ScopeRecord:
            scopes = {scope_record.scope for scope_record in removed.values()}
            if any(scope in scopes for record, _, scope in self._references() if removed.get(record.id) != record):
                raise Conflict("it is still in use", "remove everything that uses it first")
        for id in removed:
            del self.tables[kind][id]
            self._remove_dependents(kind, id)
        return len(removed)

    def _remove_dependents(self, owner_kind: type, owner_id: str) -> None:
        for kind, (owner, name) in PARENTS.items():
            table = self.tables[kind]
            for id in [id for id, part in table.items() if owner is owner_kind and getattr(part, name) == owner_id]:
                del table[id]
                self._remove_dependents(kind, id)

    def rename_scope(self, old: str, new: str) -> None:
        """Rename a scope, and update all references to it."""
        scopes = {scope_record.scope: scope_record for scope_record in self.tables[records.ScopeRecord].values()}
        if old in scopes and old != new:
            if new in scopes:
                kind, _, name = new.partition("/")
                raise name_taken(kind, name)
            self.tables[records.ScopeRecord][scopes[old].id] = replace(scopes[old], scope=new)
            self._update_references(old, new)

    def move_to_cluster(self, scopes: Sequence[str], cluster: str | None) -> None:
        """Set the cluster for compute resources and templates at these scopes, without a new revision."""
        for kind in (records.ComputeResourceRecord, records.TemplateRecord):
            moved = {id: record for id, record in self.tables[kind].items() if record.scope in scopes}
            self.tables[kind].update({id: replace(record, cluster=cluster) for id, record in moved.items()})

    def _matching(self, kind: type[RecordT], conditions: Iterable[Condition], search: str = "") -> list[RecordT]:
        matching = map(self._derived, self.tables[kind].values())
        searched = [name for name, column in COLUMNS.get(kind, {}).items() if column.searched and search]
        return [
            pickle.loads(pickle.dumps(record))  # a copy, because the caller may change it
            for record in matching
            if all(_matches(record, condition) for condition in conditions)
            and (not search or any(_contains(getattr(record, name), search) for name in searched))
        ]

    def _derived(self, record: Any) -> Any:
        """The record with its derived fields."""
        derived: dict[str, Any] = {}
        if isinstance(record, records.ComputeResourceRecord | records.TemplateRecord):
            id_field = "template_id" if isinstance(record, records.TemplateRecord) else "compute_resource_id"
            runs = [run for run in self.tables[records.RunRecord].values() if getattr(run, id_field) == record.id]
            derived["workloads"] = sum(run.active for run in runs)
            derived["last_used_at"] = max((run.created_at for run in runs), default=None)
        if isinstance(record, records.ComputeResourceRecord):
            templates = self.tables[records.TemplateRecord].values()
            derived["templates"] = sum(template.compute_resource == record.name for template in templates)
        if isinstance(record, records.FunctionRecord):
            all_runs = self.tables[records.RunRecord].values()
            runs = [run for run in all_runs if (run.scope, run.function) == (record.scope, record.name)]
            derived = {"runs": len(runs), "last_run_at": max((run.created_at for run in runs), default=None)}
        return replace(record, **derived) if derived else record

    def _check(self, record: Any, unique: Iterable[tuple[str, ...]], others: Iterable[Any]) -> None:
        label = getattr(record, "name", None) or getattr(record, "scope", record.id)
        unique_keys = [operator.attrgetter(*names) for names in unique]
        if any(value(other) == value(record) for other in others for value in unique_keys):
            self.failed = True
            raise Conflict(f"{label} already exists", "choose another name")
        scopes = {scope_record.scope for scope_record in self.tables[records.ScopeRecord].values()} | {None}
        missing_scope = not {getattr(record, name) for name in REFERENCES[type(record)]} <= scopes
        owner, name = PARENTS.get(type(record), (None, "id"))
        if missing_scope or (owner is not None and getattr(record, name) not in self.tables[owner]):
            self.failed = True
            raise Conflict(f"the scope of {label} was deleted", "list the scopes again")

    def _references(self) -> Iterator[tuple[Any, str, str]]:
        """Every reference to a scope: the record, its field and the scope."""
        for kind, names in REFERENCES.items():
            for record in tuple(self.tables[kind].values()):
                yield from ((record, name, getattr(record, name)) for name in names)

    def _update_references(self, old: str, new: str) -> None:
        for record, name, scope in self._references():
            if scope == old:
                table = self.tables[type(record)]
                table[record.id] = replace(table[record.id], **{name: new})


def _as_stored(record: Any) -> Any:
    """The record as a database returns it: times in UTC, copied JSON, and default values for derived fields."""
    return replace(
        record,
        **{
            field.name: field.default if field.name in record.DERIVED else _normalized(getattr(record, field.name))
            for field in fields(record)
        },
    )


def _normalized(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.astimezone(UTC)
    return msgspec.json.decode(msgspec.json.encode(value)) if isinstance(value, dict | list | tuple) else value


def _matches(record: Any, condition: Condition) -> bool:
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
            return value is not None and condition.value is not None and bool(COMPARISONS[sign](value, condition.value))


def _contains(value: str | None, part: str) -> bool:
    return value is not None and fold(part) in fold(value)

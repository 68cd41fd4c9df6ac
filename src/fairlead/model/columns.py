"""List columns, with how to read and parse their values, and list queries and pages."""

import string
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Generic, Literal, TypeVar

from fairlead.model.parsing import field_error, short_repr
from fairlead.model.quantities import MILLICORE, NANOS, Percent, parse_bytes, parse_cpu, parse_gpu_memory, parse_integer
from fairlead.model.records import (
    AssetRecord,
    AuditRecord,
    ComputeResourceRecord,
    FunctionRecord,
    GrantRecord,
    PolicyRecord,
    Record,
    RunRecord,
    ScheduleRecord,
    ScopeRecord,
    SecretRecord,
    TemplateRecord,
    TokenRecord,
    VolumeRecord,
)
from fairlead.model.requests import parse_priority

# The largest integer that fits in a database column. Larger amounts are capped, which affects only their sort order.
MAX_INTEGER = 2**63 - 1
# Longer lists are read page by page, so that one request cannot load a whole table into memory.
MAX_PAGE_SIZE = 500

# Not str.lower(): SQLite's lower() converts only A to Z, and keys computed here must match the database's keys.
_LOWER = {ord(letter): letter.lower() for letter in string.ascii_uppercase}

# A filter on a text column matches part of the text; on a keyword column it must match the whole value.
ColumnKind = Literal["text", "keyword", "number", "time", "boolean"]

Operator = Literal["=", "!=", "<", "<=", ">", ">=", "until", "contains", "in"]
Item = TypeVar("Item")


@dataclass(frozen=True)
class Column:
    """A column of a list. `missing` is the sort value of records without a value."""

    name: str
    kind: ColumnKind
    parse: Callable[[str], Any] = str
    read: Callable[[Any], Any] | None = None  # None: the record has a field with that name
    missing: Any = -1
    searched: bool = False

    def of(self, record: Any) -> Any:
        """A record's value in this column."""
        return getattr(record, self.name) if self.read is None else self.read(record)

    def sort_value(self, value: Any) -> Any:
        """The sort key of a value: case-insensitive, and defined for missing values."""
        # SQLite sorts NULL first and PostgreSQL sorts it last. A replacement value sorts the same in both.
        if value is None:
            return "" if self.kind in ("text", "keyword") else self.missing
        return fold(value) if self.kind in ("text", "keyword") else value


def fold(text: str) -> str:
    """Convert only A to Z to lowercase, as case-insensitive database comparisons do."""
    return text.translate(_LOWER)


def parse_timestamp(text: str) -> datetime:
    """Parse a timestamp such as 2026-11-15 or 2026-11-15T08:30:00Z. The default time zone is UTC."""
    try:
        timestamp = datetime.fromisoformat(text)
        return timestamp.replace(tzinfo=UTC) if timestamp.tzinfo is None else timestamp.astimezone(UTC)
    except (ValueError, OverflowError):  # astimezone() overflows near the years 1 and 9999
        hint = "use a time such as 2026-11-15T08:30:00Z"
        raise field_error("time", f"invalid time {short_repr(text)}", hint) from None


def parse_flag_text(text: str) -> bool:
    """Parse true or false in a query parameter."""
    if text not in ("true", "false"):
        raise field_error("type", f"must be true, false or any, found {short_repr(text)}", "use true, false or any")
    return text == "true"


def _amount(resource: str, part: str, step: int) -> Callable[[AssetRecord], int | None]:
    """Create a function that reads a request or limit as an integer number of steps, or None if unset or unlimited."""
    # Records store amounts as text such as 8Gi, which a database cannot sort. Integers can be sorted and indexed.
    parse = parse_cpu if resource == "cpu" else parse_bytes

    def read(record: AssetRecord) -> int | None:
        amount = record.requirements.get("resources", {}).get(resource, {}).get(part)
        return None if amount in (None, "unlimited") else min(parse(amount).nanos // step, MAX_INTEGER)

    return read


def _devices(record: AssetRecord) -> int | None:
    devices: int | None = record.requirements.get("resources", {}).get("gpu", {}).get("devices")
    return devices


def _gpu_memory(record: AssetRecord) -> int | None:
    memory = record.requirements.get("resources", {}).get("gpu", {}).get("memory", {})
    text = memory.get("request") or memory.get("limit")
    return None if text is None else _parse_gpu_memory(text)


def _parse_gpu_memory(text: str) -> int:
    """A sort key: percentages are at most 100, and amounts are always larger."""
    memory = parse_gpu_memory(text)
    return memory.value if isinstance(memory, Percent) else min(memory.nanos // NANOS, MAX_INTEGER)


def _steps(parse: Callable[[str], Any], step: int) -> Callable[[str], int]:
    return lambda text: min(parse(text).nanos // step, MAX_INTEGER)


_NAME = Column("name", "text", searched=True)
_SCOPE = Column("scope", "keyword", searched=True)
_STAMPS = (
    Column("created_by", "text", searched=True),
    Column("created_at", "time", parse_timestamp),
    Column("updated_by", "text"),
    Column("updated_at", "time", parse_timestamp),
    Column("revision", "number", parse_integer),
)
_MANAGED = Column("managed_by", "keyword")
# Sort values for missing times: "never used" is in the distant past; "never expires" and "has not ended" are in the
# distant future.
_DISTANT_PAST, _DISTANT_FUTURE = datetime(1970, 1, 1, tzinfo=UTC), datetime(9999, 1, 1, tzinfo=UTC)
_LAST_USED = Column("last_used_at", "time", parse_timestamp, missing=_DISTANT_PAST)
_WORKLOADS = Column("workloads", "number", parse_integer)
_CPU, _MEM = _steps(parse_cpu, MILLICORE), _steps(parse_bytes, NANOS)
_ASSET = (
    _NAME,
    Column("description", "text", searched=True),
    _SCOPE,
    Column("cluster", "keyword", searched=True),
    *_STAMPS,
    Column("archived", "boolean", parse_flag_text),
    Column("successor", "keyword"),
    _MANAGED,
    Column("gpu_devices", "number", parse_integer, _devices),
    Column("gpu_memory", "number", _parse_gpu_memory, _gpu_memory),
    Column("cpu_request", "number", _CPU, _amount("cpu", "requests", MILLICORE)),
    # Without a limit a pod may use the whole node, so a missing limit sorts after all others.
    Column("cpu_limit", "number", _CPU, _amount("cpu", "limits", MILLICORE), missing=MAX_INTEGER),
    Column("mem_request", "number", _MEM, _amount("mem", "requests", NANOS)),
    Column("mem_limit", "number", _MEM, _amount("mem", "limits", NANOS), missing=MAX_INTEGER),
    _WORKLOADS,
    _LAST_USED,
)
_LISTED: Mapping[type, tuple[Column, ...]] = {
    ScopeRecord: (_NAME, _SCOPE, Column("kind", "keyword"), Column("parent", "keyword"), _MANAGED, *_STAMPS),
    ComputeResourceRecord: (*_ASSET, Column("templates", "number", parse_integer)),
    TemplateRecord: (*_ASSET, Column("compute_resource", "keyword", searched=True)),
    PolicyRecord: (_SCOPE, _MANAGED, *_STAMPS),
    SecretRecord: (_NAME, _SCOPE, *_STAMPS),
    VolumeRecord: (_NAME, _SCOPE, Column("storage_class", "keyword"), *_STAMPS),
    FunctionRecord: (
        _NAME,
        _SCOPE,
        Column("kind", "keyword"),
        *_STAMPS,
        Column("runs", "number", parse_integer),
        Column("last_run_at", "time", parse_timestamp, missing=_DISTANT_PAST),
    ),
    GrantRecord: (Column("subject", "text", searched=True), Column("role", "keyword"), _SCOPE, *_STAMPS),
    TokenRecord: (
        _NAME,
        Column("user", "keyword", searched=True),
        Column("purpose", "keyword"),
        Column("expires_at", "time", parse_timestamp, missing=_DISTANT_FUTURE),
        *_STAMPS,
    ),
    RunRecord: (
        Column("id", "keyword", searched=True),
        _SCOPE,
        Column("function", "text", searched=True),
        Column("action", "keyword"),
        Column("state", "keyword"),
        Column("reason", "keyword"),
        Column("active", "boolean", parse_flag_text),
        Column("compute_resource", "keyword", searched=True),
        Column("template", "keyword", searched=True),
        Column("schedule", "keyword"),
        Column("priority", "number", parse_priority),
        Column("finished_at", "time", parse_timestamp, missing=_DISTANT_FUTURE),
        *_STAMPS,
    ),
    ScheduleRecord: (
        _NAME,
        _SCOPE,
        Column("function", "text", searched=True),
        Column("paused", "boolean", parse_flag_text),
        Column("next_at", "time", parse_timestamp, missing=_DISTANT_FUTURE),
        Column("last_at", "time", parse_timestamp, missing=_DISTANT_PAST),
        *_STAMPS,
    ),
    AuditRecord: (
        Column("at", "time", parse_timestamp),
        Column("user", "keyword", searched=True),
        Column("action", "keyword", searched=True),
        Column("kind", "keyword"),
        Column("name", "text", searched=True),
        Column("object_id", "keyword"),
        _SCOPE,
        Column("address", "keyword"),
        Column("request_id", "keyword"),
    ),
}
COLUMNS: Mapping[type, Mapping[str, Column]] = {
    kind: {column.name: column for column in columns} for kind, columns in _LISTED.items()
}


def computed_columns(record: Record) -> Iterator[tuple[str, Any]]:
    """The columns of a record that are computed from its fields, with their values."""
    for column in COLUMNS.get(type(record), {}).values():
        if column.read is not None:
            yield column.name, column.of(record)


@dataclass(frozen=True)
class Condition:
    """A condition on a column. None equals only None. `until` matches None and values up to the given one."""

    column: str
    operator: Operator
    value: Any


@dataclass(frozen=True)
class Query:
    """A query for one page of a list. `after` is the sort value and ID of the last item on the previous page."""

    conditions: tuple[Condition, ...] = ()
    search: str = ""
    sort: str = "id"
    descending: bool = False
    after: tuple[Any, str] | None = None  # keyset pagination: unlike an offset, it is stable while rows are added
    until: tuple[Any, str] | None = None  # the sort value and ID of the last record to examine
    limit: int = 50


@dataclass(frozen=True)
class Page(Generic[Item]):
    """A page of a list. `next_cursor` is None on the last page."""

    items: list[Item]
    next_cursor: str | None = None
    total: int | None = None  # None: not requested, because counting reads all matching rows

"""The columns of lists: how each is read off a record, and what people may write to compare it with."""

import string
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

from fairlead.model.numbers import parse_bytes, parse_cpu, parse_gpu_memory, parse_whole
from fairlead.model.parsing import show, wrong
from fairlead.model.quantities import MILLICORE, NANOS, Percent
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

LARGEST = 2**63 - 1
MOST_LISTED = 500

_SMALL = {ord(letter): letter.lower() for letter in string.ascii_uppercase}

Kind = Literal["text", "word", "number", "moment", "flag"]


@dataclass(frozen=True)
class Column:
    """A column: what kind of value it has, and where a record without one stands in the order."""

    name: str
    kind: Kind
    parse: Callable[[str], Any] = str
    read: Callable[[Any], Any] | None = None  # where it is no field of the record
    missing: Any = -1
    searched: bool = False

    def of(self, record: Any) -> Any:
        """The value that a record has in this column."""
        return getattr(record, self.name) if self.read is None else self.read(record)

    def sort_value(self, value: Any) -> Any:
        """What the order compares: letters without their case, and something for nothing."""
        if value is None:
            return "" if self.kind in ("text", "word") else self.missing
        return fold(value) if self.kind in ("text", "word") else value


def fold(text: str) -> str:
    """Text without regard to case, as databases see it: they know that of A to Z alone."""
    return text.translate(_SMALL)


def parse_moment(text: str) -> datetime:
    """A point in time, such as 2026-11-15 or 2026-11-15T08:30:00Z; without a zone it is UTC."""
    try:
        moment = datetime.fromisoformat(text)
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError):
        raise wrong("time", f"is no time: {show(text)}", "write one such as 2026-11-15T08:30:00Z") from None


def parse_flag_text(text: str) -> bool:
    """True or false in an address."""
    if text not in ("true", "false"):
        raise wrong("type", f"must be true, false or any, found {show(text)}", "write true, false or any")
    return text == "true"


def _amount(resource: str, part: str, step: int) -> Callable[[AssetRecord], int | None]:
    """A request or limit of a record, as a whole number of steps; None where nothing or no limit is said."""
    parse = parse_cpu if resource == "cpu" else parse_bytes

    def read(record: AssetRecord) -> int | None:
        said = record.requirements.get("resources", {}).get(resource, {}).get(part)
        return None if said in (None, "unlimited") else min(parse(said).nanos // step, LARGEST)

    return read


def _devices(record: AssetRecord) -> int | None:
    devices: int | None = record.requirements.get("resources", {}).get("gpu", {}).get("devices")
    return devices


def _gpu_memory(record: AssetRecord) -> int | None:
    said = record.requirements.get("resources", {}).get("gpu", {}).get("memory", {})
    text = said.get("request") or said.get("limit")
    return None if text is None else _parse_gpu_memory(text)


def _parse_gpu_memory(text: str) -> int:
    """Shares come before amounts: 100 at most, and an amount is never that small."""
    memory = parse_gpu_memory(text)
    return memory.value if isinstance(memory, Percent) else min(memory.nanos // NANOS, LARGEST)


def _steps(parse: Callable[[str], Any], step: int) -> Callable[[str], int]:
    return lambda text: min(parse(text).nanos // step, LARGEST)


_NAME = Column("name", "text", searched=True)
_SCOPE = Column("scope", "word", searched=True)
_STAMPS = (
    Column("created_by", "text", searched=True),
    Column("created_at", "moment", parse_moment),
    Column("updated_by", "text"),
    Column("updated_at", "moment", parse_moment),
    Column("revision", "number", parse_whole),
)
_MANAGED = Column("managed_by", "word")
_LONG_AGO, _NOT_YET = datetime(1970, 1, 1, tzinfo=UTC), datetime(9999, 1, 1, tzinfo=UTC)
_LAST_USED = Column("last_used_at", "moment", parse_moment, missing=_LONG_AGO)
_WORKLOADS = Column("workloads", "number", parse_whole)
_CPU, _MEM = _steps(parse_cpu, MILLICORE), _steps(parse_bytes, NANOS)
_ASSET = (
    _NAME,
    Column("description", "text", searched=True),
    _SCOPE,
    Column("cluster", "word", searched=True),
    *_STAMPS,
    Column("archived", "flag", parse_flag_text),
    Column("successor", "word"),
    _MANAGED,
    Column("gpu_devices", "number", parse_whole, _devices),
    Column("gpu_memory", "number", _parse_gpu_memory, _gpu_memory),
    Column("cpu_request", "number", _CPU, _amount("cpu", "requests", MILLICORE)),
    Column("cpu_limit", "number", _CPU, _amount("cpu", "limits", MILLICORE), missing=LARGEST),
    Column("mem_request", "number", _MEM, _amount("mem", "requests", NANOS)),
    Column("mem_limit", "number", _MEM, _amount("mem", "limits", NANOS), missing=LARGEST),
    _WORKLOADS,
    _LAST_USED,
)
_LISTED: Mapping[type, tuple[Column, ...]] = {
    ScopeRecord: (_NAME, _SCOPE, Column("kind", "word"), Column("parent", "word"), _MANAGED, *_STAMPS),
    ComputeResourceRecord: (*_ASSET, Column("templates", "number", parse_whole)),
    TemplateRecord: (*_ASSET, Column("compute_resource", "word", searched=True)),
    PolicyRecord: (_SCOPE, _MANAGED, *_STAMPS),
    SecretRecord: (_NAME, _SCOPE, *_STAMPS),
    VolumeRecord: (_NAME, _SCOPE, Column("storage_class", "word"), *_STAMPS),
    FunctionRecord: (
        _NAME,
        _SCOPE,
        Column("kind", "word"),
        *_STAMPS,
        Column("runs", "number", parse_whole),
        Column("last_run_at", "moment", parse_moment, missing=_LONG_AGO),
    ),
    GrantRecord: (Column("subject", "text", searched=True), Column("role", "word"), _SCOPE, *_STAMPS),
    TokenRecord: (
        _NAME,
        Column("user", "word", searched=True),
        Column("purpose", "word"),
        Column("expires_at", "moment", parse_moment, missing=_NOT_YET),
        *_STAMPS,
    ),
    RunRecord: (
        Column("id", "word", searched=True),
        _SCOPE,
        Column("function", "text", searched=True),
        Column("action", "word"),
        Column("state", "word"),
        Column("reason", "word"),
        Column("active", "flag", parse_flag_text),
        Column("compute_resource", "word", searched=True),
        Column("template", "word", searched=True),
        Column("schedule", "word"),
        Column("priority", "number", parse_priority),
        Column("finished_at", "moment", parse_moment, missing=_NOT_YET),
        *_STAMPS,
    ),
    ScheduleRecord: (
        _NAME,
        _SCOPE,
        Column("function", "text", searched=True),
        Column("paused", "flag", parse_flag_text),
        Column("next_at", "moment", parse_moment, missing=_NOT_YET),
        Column("last_at", "moment", parse_moment, missing=_LONG_AGO),
        *_STAMPS,
    ),
    AuditRecord: (
        Column("at", "moment", parse_moment),
        Column("user", "word", searched=True),
        Column("action", "word", searched=True),
        Column("kind", "word"),
        Column("name", "text", searched=True),
        Column("object_id", "word"),
        _SCOPE,
        Column("address", "word"),
        Column("request_id", "word"),
    ),
}
COLUMNS: Mapping[type, Mapping[str, Column]] = {
    kind: {column.name: column for column in columns} for kind, columns in _LISTED.items()
}


def computed_of(record: Record) -> Iterator[tuple[str, Any]]:
    """The columns of a record that are no fields of it, with their values."""
    for column in COLUMNS.get(type(record), {}).values():
        if column.read is not None:
            yield column.name, column.of(record)

"""Lists: what an address asks for becomes a query, and each page says how to get the next."""

import base64
import binascii
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, TypeVar

import msgspec

from fairlead.core.listing import parse_conditions, parse_sort
from fairlead.errors import RequestRejected
from fairlead.model.columns import COLUMNS, MAX_INTEGER, Column
from fairlead.model.plans import Violation
from fairlead.model.queries import Condition, Page, Query
from fairlead.ports import Transaction

RecordT = TypeVar("RecordT")


@dataclass(frozen=True)
class Listing:
    """What an address asks of a list."""

    filters: tuple[tuple[str, str], ...] = ()
    search: str = ""
    sort: str | None = None
    cursor: str | None = None
    limit: int = 50
    total: bool = False


def load_page(
    tx: Transaction, kind: type[RecordT], asked: Listing, *, sort: str, within: Sequence[Condition] = ()
) -> Page[RecordT]:
    """One page of the records of a kind that stand within conditions."""
    columns = COLUMNS[kind]
    sort = sort if asked.sort is None else asked.sort
    name, descending = parse_sort(columns, sort)
    conditions = (*within, *parse_conditions(columns, asked.filters))
    after = None if asked.cursor is None else _read_cursor(asked.cursor, f"{kind.__name__}:{sort}", columns[name])
    query = Query(conditions, asked.search, name, descending, after, asked.limit + 1)
    items = tx.page(kind, query).items
    cursor = None
    if len(items) > asked.limit:
        items = items[: asked.limit]
        cursor = _write_cursor(kind, items[-1], sort, columns[name])
    total = tx.count(kind, *conditions, search=asked.search) if asked.total else None
    return Page(items, cursor, total)


def map_page(page: Page[Any], change: Any) -> Page[Any]:
    """The same page with each item as something else."""
    return replace(page, items=[change(item) for item in page.items])


def _write_cursor(kind: type, last: Any, sort: str, column: Column) -> str:
    value = column.sort_value(column.of(last))
    return (
        base64.urlsafe_b64encode(msgspec.json.encode([f"{kind.__name__}:{sort}", value, last.id])).decode().rstrip("=")
    )


def _read_cursor(cursor: str, sort: str, column: Column) -> tuple[Any, str]:
    kinds: dict[str, Any] = {"number": int, "timestamp": datetime, "flag": bool}
    try:
        text = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
        sorted_by, value, last = msgspec.json.decode(text, type=tuple[str, Any, str])
        if sorted_by != sort:
            raise _wrong_cursor("belongs to another list or another order")
        value = msgspec.convert(value, kinds.get(column.kind, str))
        value = value.astimezone(UTC) if isinstance(value, datetime) else value
        if "\0" in f"{value}{last}" or (isinstance(value, int) and not -MAX_INTEGER <= value <= MAX_INTEGER):
            raise ValueError("no column holds this")
    except (binascii.Error, msgspec.MsgspecError, ValueError, OverflowError) as error:
        raise _wrong_cursor("is none that this list gave out") from error
    return value, last


def _wrong_cursor(message: str) -> RequestRejected:
    hint = "use next_cursor of the page before, with the same sort, or leave it out"
    return RequestRejected([Violation("cursor", "cursor", message, hint)])

"""Pagination: loads one page of records, with filters, search, sort order and a cursor for the next page."""

import base64
import binascii
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, TypeVar

import msgspec

from fairlead.errors import RequestRejected
from fairlead.model.columns import COLUMNS, MAX_INTEGER, Column, Condition, Page, Query, parse_conditions, parse_sort
from fairlead.model.parsing import collect_mistakes
from fairlead.model.plans import Violation
from fairlead.ports import Transaction

RecordT = TypeVar("RecordT")


@dataclass(frozen=True)
class ListQuery:
    """Filters, search, sort order and page of a list request."""

    filters: tuple[tuple[str, str], ...] = ()
    search: str = ""
    sort: str | None = None
    cursor: str | None = None
    limit: int = 50
    total: bool = False  # optional, because counting needs a second query over all matches


def load_page(
    tx: Transaction, kind: type[RecordT], query: ListQuery, *, sort: str, within: Sequence[Condition] = ()
) -> Page[RecordT]:
    """Load one page of the records that meet all conditions in `within`. `sort` is the default sort order."""
    columns = COLUMNS[kind]
    sort = sort if query.sort is None else query.sort
    name, descending = parse_sort(columns, sort)
    conditions = (*within, *parse_conditions(columns, query.filters))
    after = None if query.cursor is None else _read_cursor(query.cursor, f"{kind.__name__}:{sort}", columns[name])
    # Reading one record more than the limit shows whether there is a next page.
    items = tx.page(kind, Query(conditions, query.search, name, descending, after, query.limit + 1)).items
    cursor = None
    if len(items) > query.limit:
        items = items[: query.limit]
        cursor = _write_cursor(kind, items[-1], sort, columns[name])
    total = tx.count(kind, *conditions, search=query.search) if query.total else None
    return Page(items, cursor, total)


def map_page(page: Page[Any], convert: Any) -> Page[Any]:
    """Convert each item of a page."""
    return replace(page, items=[convert(item) for item in page.items])


def _write_cursor(kind: type, last: Any, sort: str, column: Column) -> str:
    # The cursor is a position in the sort order, not an offset, so new records do not shift the pages.
    # It includes the kind and sort order, because the position is meaningless in a different list.
    value = column.sort_value(column.of(last))
    return (
        base64.urlsafe_b64encode(msgspec.json.encode([f"{kind.__name__}:{sort}", value, last.id])).decode().rstrip("=")
    )


def _read_cursor(cursor: str, sort: str, column: Column) -> tuple[Any, str]:
    # Clients can send anything. A value of the wrong type for the column would cause a database error.
    kinds: dict[str, Any] = {"number": int, "time": datetime, "boolean": bool}
    try:
        text = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
        sorted_by, value, last = msgspec.json.decode(text, type=tuple[str, Any, str])
        if sorted_by != sort:
            raise _invalid_cursor("belongs to another list or sort order")
        value = msgspec.convert(value, kinds.get(column.kind, str))
        value = value.astimezone(UTC) if isinstance(value, datetime) else value
        # PostgreSQL accepts neither NUL in text nor integers larger than 64 bits.
        if "\0" in f"{value}{last}" or (isinstance(value, int) and not -MAX_INTEGER <= value <= MAX_INTEGER):
            raise ValueError("not a value of any column")
    except (binascii.Error, msgspec.MsgspecError, ValueError, OverflowError) as error:
        raise _invalid_cursor("is not a cursor for this list") from error
    return value, last


def _invalid_cursor(message: str) -> RequestRejected:
    hint = "use next_cursor from the previous page with the same sort, or omit it"
    return RequestRejected([Violation("cursor", "cursor", message, hint)])


def parse_field(path: str, parse: Callable[[Any], Any], value: Any) -> Any:
    """Parse a value. Raises `RequestRejected` with all violations."""
    mistakes = collect_mistakes(path, parse, value)
    if mistakes:
        raise RequestRejected(Violation(*mistake) for mistake in mistakes)
    return parse(value)

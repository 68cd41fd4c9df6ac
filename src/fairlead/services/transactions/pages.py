"""Pagination: parses filters and sort order, and loads one page of records with a cursor for the next page."""

import base64
import binascii
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, TypeVar

import msgspec
from pydantic_core import PydanticCustomError

from fairlead.errors import RequestRejected
from fairlead.model.columns import COLUMNS, MAX_INTEGER, Column, Condition, Operator, Page, Query
from fairlead.model.parsing import Mistake, collect_mistakes, field_error, mistakes_of, short_repr, suggest_names
from fairlead.model.plans import Violation
from fairlead.ports import Transaction

RecordT = TypeVar("RecordT")

# Records that a page examines one by one, for searches and for filters without an index. This takes about 10 ms.
MAX_EXAMINED = 10_000

OPERATORS: Mapping[str, Operator] = {">=": ">=", "<=": "<=", ">": ">", "<": "<", "!": "!=", "=": "="}


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
    whole = Query(conditions, query.search, name, descending, limit=query.limit + 1)
    until = tx.scan_end(kind, replace(whole, after=after), MAX_EXAMINED)
    items = tx.page(kind, replace(whole, after=after, until=until)).items
    cursor = None if until is None else _write_cursor(kind, sort, *until)
    if len(items) > query.limit:
        items = items[: query.limit]
        last: Any = items[-1]
        cursor = _write_cursor(kind, sort, columns[name].sort_value(columns[name].of(last)), last.id)
    total = None
    if query.total and (until if after is None else tx.scan_end(kind, whole, MAX_EXAMINED)) is None:
        total = tx.count(kind, *conditions, search=query.search)
    return Page(items, cursor, total)


def map_page(page: Page[Any], convert: Any) -> Page[Any]:
    """Convert each item of a page."""
    return replace(page, items=[convert(item) for item in page.items])


def _write_cursor(kind: type, sort: str, value: Any, last_id: str) -> str:
    # The cursor is a position in the sort order, not an offset, so new records do not shift the pages.
    # It includes the kind and sort order, because the position is meaningless in a different list.
    position = [f"{kind.__name__}:{sort}", value, last_id]
    return base64.urlsafe_b64encode(msgspec.json.encode(position)).decode().rstrip("=")


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


def parse_conditions(columns: Mapping[str, Column], params: Iterable[tuple[str, str]]) -> list[Condition]:
    """Parse filters such as `name=a100` or `mem_request=>=32Gi`. Raises `RequestRejected` with all errors."""
    conditions: list[Condition] = []
    mistakes: list[Mistake] = []
    for name, text in params:
        try:
            conditions.append(_parse_condition(columns[name], text))
        except PydanticCustomError as error:
            mistakes += mistakes_of(error, prefix=name)
    if mistakes:
        raise RequestRejected(Violation(*mistake) for mistake in mistakes)
    return conditions


def parse_sort(columns: Mapping[str, Column], text: str) -> tuple[str, bool]:
    """Parse a sort order such as `name` or `-created_at` (descending)."""
    name = text.removeprefix("-")
    if name not in columns:
        hint = suggest_names(name, columns, "known columns: {known}")
        raise RequestRejected([Violation("sort", "unknown_column", f"unknown column {short_repr(name)}", hint)])
    return name, text.startswith("-")


def _parse_condition(column: Column, text: str) -> Condition:
    # Longer operators come first: `>` would also match the start of `>=`.
    sign, rest = re.fullmatch(r"(>=|<=|>|<|!|=)?(.*)", text, re.DOTALL).groups()  # type: ignore[union-attr]
    operator: Operator = OPERATORS.get(sign or "=", "=")
    if operator in ("<", "<=", ">", ">=") and column.kind in ("text", "keyword", "boolean"):
        raise field_error("operator", f"{column.name} has no order, so {sign} cannot be used", "remove the operator")
    # Flags always have a value, so this condition is always true. It replaces a default filter such as archived=false.
    if column.kind == "boolean" and text == "any":
        return Condition(column.name, "!=", None)
    # In a text column, `none` without an operator is a search for the word.
    if rest == "none" and (column.kind != "text" or sign is not None):
        if operator not in ("=", "!=") or column.kind == "boolean":
            raise field_error(
                "operator", f"none cannot be compared with {sign}, found {short_repr(text)}", "use none or !none"
            )
        return Condition(column.name, operator, None)
    if column.kind == "text" and sign is None:
        return Condition(column.name, "contains", rest)
    if column.kind == "keyword" and sign is None and "," in rest:
        return Condition(column.name, "in", tuple(rest.split(",")))
    return Condition(column.name, operator, column.parse(rest))

"""Conditions, searches and pages as SQL that finds its index."""

from collections.abc import Iterator, Sequence
from dataclasses import fields
from typing import Any

import sqlalchemy as sa

from fairlead.adapters.database.orders import DERIVED, order_of
from fairlead.adapters.database.tables import TABLES
from fairlead.model.columns import COLUMNS, fold
from fairlead.model.queries import Condition, Query

MOST_PARAMETERS = 1000


def select_of(kind: Any) -> sa.Select[Any]:
    """All fields of a kind of record, derived ones among them."""
    return sa.select(*_SELECTED[kind])


def clauses_of(kind: type, conditions: Sequence[Condition], dialect: str, *, in_order: bool = False) -> list[Any]:
    """What must hold, as SQL. In order: where the list is read in its order, by the index of that and no other."""
    return [clause for condition in conditions for clause in _clauses(kind, condition, dialect, in_order)]


def search_of(kind: type, text: str) -> list[Any]:
    """That a text stands somewhere in the columns that are searched."""
    if not text:
        return []
    searched = [TABLES[kind].c[name] for name, column in COLUMNS[kind].items() if column.searched]
    return [sa.or_(*(sa.func.lower(column).contains(fold(text), autoescape=True) for column in searched))]


def after_of(kind: type, query: Query) -> list[Any]:
    """That a row comes after the last one that was seen."""
    if query.after is None:
        return []
    order, key = order_of(kind, query.sort), TABLES[kind].c.id
    first = sa.literal(query.after[0], order.type)
    here, seen = sa.tuple_(order, key), sa.tuple_(first, sa.literal(query.after[1]))
    # The second clause says nothing more, but is what SQLite looks up in an index on an expression.
    return [here < seen, order <= first] if query.descending else [here > seen, order >= first]


def directions_of(kind: type, query: Query) -> list[Any]:
    """The order of a page; those that are alike in it stand in the order of their ids."""
    parts = (order_of(kind, query.sort), TABLES[kind].c.id)
    return [part.desc() if query.descending else part.asc() for part in parts]


def is_broad(query: Query) -> bool:
    """Whether nearly every row is one of the list, so that it is best read in its order."""
    return not query.search and all(condition.value is False for condition in query.conditions)


def _clauses(kind: type, condition: Condition, dialect: str, in_order: bool) -> Iterator[Any]:
    derived = DERIVED.get(kind, {}).get(condition.column)
    column = TABLES[kind].c[condition.column] if derived is None else derived
    value = condition.value
    if in_order and dialect == "sqlite" and derived is None and isinstance(column.type, sa.String):
        # SQLite would take the index on the column, and then sort half of all there is.
        column = sa.func.coalesce(column, sa.literal_column("''")) if value is not None else column
    match condition.operator:
        case "contains":
            yield sa.func.lower(column).contains(fold(value), autoescape=True)
        case "in":
            yield column.in_(tuple(value) if len(value) <= MOST_PARAMETERS else _as_rows(value, dialect))
        case "!=":
            yield column.is_distinct_from(value)
        case "until":
            yield sa.or_(column.is_(None), column <= value)
        case "=" if value is None:
            yield column.is_(None)
        case "=" if value is False:
            # Most rows are not archived: SQLite must not take the index that finds them all, so it is not offered.
            yield column.is_not(True)
        case sign:
            known = COLUMNS.get(kind, {}).get(condition.column)
            kinds = ("text", "word", "number") if sign == "=" else ("number",)
            plain = derived is not None or value is None or known is None or known.kind not in kinds
            if plain or known is None or (in_order and dialect == "sqlite"):
                yield column.op(sign)(sa.literal(value, column.type))
                return
            # In the words of the index, without which it is not found.
            order = order_of(kind, condition.column)
            yield order.op(sign)(sa.literal(known.sort_value(value), order.type))
            # What the index does not tell apart: letters from capitals, and nothing from what stands for it. Not by
            # `=`, with which SQLite would look the value up here and forget the index.
            yield column.is_not(None) if known.kind == "number" else column.is_not_distinct_from(value)


def _as_rows(values: Sequence[str], dialect: str) -> Any:
    """Many values as one parameter: databases take only so many of them."""
    if dialect == "sqlite":
        each = sa.func.json_each(sa.literal(list(values), sa.JSON)).table_valued("value")
        return sa.select(each.c.value)
    return sa.select(sa.func.unnest(sa.literal(list(values), sa.ARRAY(sa.String))))


def _select(kind: type) -> tuple[Any, ...]:
    derived, table = DERIVED.get(kind, {}), TABLES[kind]
    named = [field.name for field in fields(kind)]
    return tuple(derived[name].label(name) if name in derived else table.c[name] for name in named)


_SELECTED = {kind: _select(kind) for kind in TABLES}

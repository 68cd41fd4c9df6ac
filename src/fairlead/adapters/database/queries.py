"""Builds SQL for lists: conditions, searches, sort orders with their indexes, and pages."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any

import sqlalchemy as sa

from fairlead.adapters.database.tables import TABLES, UtcDateTime, compute_resources, functions, runs, templates
from fairlead.model import records
from fairlead.model.columns import COLUMNS, Column, Condition, Query, fold

# Longer lists of values are passed as one parameter: SQLite accepts 32,766 parameters per statement, PostgreSQL 65,535.
MAX_PARAMETERS = 1000


def _uses(column: sa.Column[Any], table: sa.Table) -> Mapping[str, sa.ScalarSelect[Any]]:
    """Count the active runs that use each row of a table, and find the time of the last run."""
    matches_row = column == table.c.id
    return {"workloads": _count(matches_row, runs.c.active.is_(True)), "last_used_at": _newest(matches_row)}


def _count(*matches_row: sa.ColumnElement[bool]) -> sa.ScalarSelect[Any]:
    return sa.select(sa.func.count()).select_from(runs).where(*matches_row).scalar_subquery()


def _newest(matches_row: sa.ColumnElement[bool]) -> sa.ScalarSelect[Any]:
    return sa.select(sa.func.max(runs.c.created_at)).where(matches_row).scalar_subquery()


# Match by name: a run is stored before its function, so it cannot contain the function's ID.
_OF_FUNCTION = sa.and_(runs.c.scope == functions.c.scope, runs.c.function == functions.c.name)


DERIVED: Mapping[type, Mapping[str, Any]] = {
    records.ComputeResourceRecord: {
        **_uses(runs.c.compute_resource_id, compute_resources),
        "templates": sa.select(sa.func.count())
        .where(templates.c.compute_resource == compute_resources.c.name)
        .scalar_subquery(),
    },
    records.TemplateRecord: _uses(runs.c.template_id, templates),
    records.FunctionRecord: {"runs": _count(_OF_FUNCTION), "last_run_at": _newest(_OF_FUNCTION)},
}


def sort_expression(kind: type, name: str) -> Any:
    """Return the expression that sorts a list. There is an index on it unless the column is derived."""
    if name == "id":
        return TABLES[kind].c.id
    expression = DERIVED.get(kind, {}).get(name)
    return _order(TABLES[kind].c[name] if expression is None else expression, COLUMNS[kind][name])


def _order(expression: Any, column: Column) -> Any:
    # The replacement for NULL is a literal: an expression with a parameter would not match the index.
    if column.kind in ("text", "keyword"):
        # On both databases lower() changes only A to Z (on PostgreSQL because of the C collation), as `fold` does.
        return sa.func.lower(sa.func.coalesce(expression, sa.literal_column("''")))
    if column.kind == "number" and _may_be_null(expression):
        return sa.func.coalesce(expression, sa.literal_column(str(column.missing)))
    if column.kind == "time" and _may_be_null(expression):
        # This replacement can be a parameter: _INDEXED contains no nullable time columns.
        return sa.func.coalesce(expression, sa.literal(column.missing, UtcDateTime))
    return expression


def _may_be_null(expression: Any) -> bool:
    # Derived columns are subqueries, and max() of no rows is NULL.
    return not isinstance(expression, sa.Column) or bool(expression.nullable)


# Long lists have an index for each sort order, except for descriptions, which can be longer than an index entry. Runs
# are added constantly, and each index slows that down, so only their usual sort orders have one.
_INDEXED: Mapping[type, tuple[str, ...]] = {
    records.ComputeResourceRecord: tuple(COLUMNS[records.ComputeResourceRecord]),
    records.TemplateRecord: tuple(COLUMNS[records.TemplateRecord]),
    records.RunRecord: ("created_at", "function", "state"),
}
for _kind, _names in _INDEXED.items():
    for _name in _names:
        if _name not in DERIVED.get(_kind, {}) and _name != "description":
            # The ID breaks ties between equal values. A new index adds itself to the table that its columns belong to.
            sa.Index(f"ix_{TABLES[_kind].name}_by_{_name}", sort_expression(_kind, _name), TABLES[_kind].c.id)
# For the derived `templates` column, which is counted for each compute resource on a page.
sa.Index("ix_templates_compute_resource", templates.c.compute_resource)


def select_records(kind: Any) -> sa.Select[Any]:
    """Select all fields of a record type, including derived ones."""
    return sa.select(*_SELECTED[kind])


def where_clauses(
    kind: type, conditions: Sequence[Condition], dialect: str, *, sorted_by: str | None = None
) -> list[Any]:
    """Return the conditions as SQL. With `sorted_by`, the database may use only the index for that sort order."""
    return [
        clause
        for condition in conditions
        for clause in _clauses(
            kind, condition, dialect, sorted_by is not None and not _is_sorted(kind, condition, sorted_by)
        )
    ]


def search_clauses(kind: type, text: str) -> list[Any]:
    """Return the SQL for a text search of the searchable columns."""
    if not text:
        return []
    searched = [TABLES[kind].c[name] for name, column in COLUMNS[kind].items() if column.searched]
    return [sa.or_(*(sa.func.lower(column).contains(fold(text), autoescape=True) for column in searched))]


def cursor_clauses(kind: type, query: Query) -> list[Any]:
    """Return the SQL for the rows after the cursor, up to the last one to examine."""
    order, key = sort_expression(kind, query.sort), TABLES[kind].c.id
    clauses: list[Any] = []
    for position, is_start in ((query.after, True), (query.until, False)):
        if position is not None:
            value = sa.literal(position[0], order.type)
            # Value and ID are compared as a tuple, so that rows with equal values are neither skipped nor repeated.
            row, cursor = sa.tuple_(order, key), sa.tuple_(value, sa.literal(position[1]))
            below, above = ("<", ">") if is_start else ("<=", ">=")
            is_below = query.descending is is_start
            # The second clause is redundant, but SQLite needs it to use an index on an expression.
            clauses += [row.op(below if is_below else above)(cursor), order <= value if is_below else order >= value]
    return clauses


def order_by_clauses(kind: type, query: Query) -> list[Any]:
    """Return the sort order of a page; equal rows are sorted by ID."""
    parts = (sort_expression(kind, query.sort), TABLES[kind].c.id)
    return [part.desc() if query.descending else part.asc() for part in parts]


def is_read_in_order(kind: type, query: Query) -> bool:
    """Whether to read the list in its sort order, because nearly all rows match or an index sorts the matches."""
    # A false flag excludes few rows: most assets are not archived, and most runs have ended.
    return not query.search and all(
        condition.value is False or _is_sorted(kind, condition, query.sort) for condition in query.conditions
    )


def needs_scan(kind: type, query: Query) -> bool:
    """Whether no index finds the matching rows, as for searches, substrings, and columns without an index."""
    return bool(query.search) or any(
        condition.operator in ("contains", "!=") or all(condition.column != names[0] for names in _INDEX_COLUMNS[kind])
        for condition in query.conditions
        if condition.value is not False
    )


def _is_sorted(kind: type, condition: Condition, sort: str) -> bool:
    """Whether an index contains the rows that meet the condition, in the sort order."""
    return condition.operator == "=" and [condition.column, sort, "id"] in _INDEX_COLUMNS[kind]


def _clauses(kind: type, condition: Condition, dialect: str, in_order: bool) -> Iterator[Any]:
    derived = DERIVED.get(kind, {}).get(condition.column)
    column = TABLES[kind].c[condition.column] if derived is None else derived
    value = condition.value
    if in_order and dialect == "sqlite" and derived is None and isinstance(column.type, sa.String):
        # SQLite would use the index on the column, and then sort half the table.
        column = sa.func.coalesce(column, sa.literal_column("''")) if value is not None else column
    match condition.operator:
        case "contains":
            yield sa.func.lower(column).contains(fold(value), autoescape=True)
        case "in":
            yield column.in_(tuple(value) if len(value) <= MAX_PARAMETERS else _as_rows(value, dialect))
        case "!=":
            # `<>` would also exclude the rows in which the column is NULL.
            yield column.is_distinct_from(value)
        case "until":
            yield sa.or_(column.is_(None), column <= value)
        case "=" if value is None:
            yield column.is_(None)
        case "=" if value is False:
            # Most rows are not archived. `IS NOT TRUE` avoids the index on the column, which would return most rows.
            yield column.is_not(True)
        case sign:
            known = COLUMNS.get(kind, {}).get(condition.column)
            # The index ignores case, so it cannot find strings that are smaller or larger than a value.
            kinds = ("text", "keyword", "number") if sign == "=" else ("number",)
            unindexed = condition.column not in _INDEXED.get(kind, ())
            plain = derived is not None or unindexed or value is None or known is None or known.kind not in kinds
            if plain or known is None or (in_order and dialect == "sqlite"):
                yield column.op(sign)(sa.literal(value, column.type))
                return
            # Use the same expression as the index, because otherwise the index is not used.
            order = sort_expression(kind, condition.column)
            yield order.op(sign)(sa.literal(known.sort_value(value), order.type))
            # The index ignores case and replaces NULL, so compare the column as well. Do not use `=`: SQLite would use
            # the index on the column instead.
            yield column.is_not(None) if known.kind == "number" else column.is_not_distinct_from(value)


def _as_rows(values: Sequence[str], dialect: str) -> Any:
    """Return many values as one parameter, because databases limit the number of parameters."""
    if dialect == "sqlite":
        rows = sa.func.json_each(sa.literal(list(values), sa.JSON)).table_valued("value")
        return sa.select(rows.c.value)
    return sa.select(sa.func.unnest(sa.literal(list(values), sa.ARRAY(sa.String))))


def _select(kind: type) -> tuple[Any, ...]:
    derived, table = DERIVED.get(kind, {}), TABLES[kind]
    names = [field.name for field in fields(kind)]
    return tuple(derived[name].label(name) if name in derived else table.c[name] for name in names)


_SELECTED = {kind: _select(kind) for kind in TABLES}
# The columns of each index, in order.
_INDEX_COLUMNS = {
    kind: [
        list(index.columns.keys())
        for index in (*table.indexes, *table.constraints)
        if isinstance(index, (sa.Index, sa.PrimaryKeyConstraint, sa.UniqueConstraint))
    ]
    for kind, table in TABLES.items()
}

"""Sort expressions, derived columns and indexes for lists."""

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa

from fairlead.adapters.database.tables import TABLES, UtcDateTime, compute_resources, functions, runs, templates
from fairlead.model import records
from fairlead.model.columns import COLUMNS, Column


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

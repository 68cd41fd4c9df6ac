"""Parses list parameters in URLs: filters and sort order."""

import re
from collections.abc import Iterable, Mapping

from pydantic_core import PydanticCustomError

from fairlead.errors import RequestRejected
from fairlead.model.columns import Column
from fairlead.model.parsing import Mistake, field_error, mistakes_of, short_repr, suggest_names
from fairlead.model.plans import Violation
from fairlead.model.queries import Condition, Operator

OPERATORS: Mapping[str, Operator] = {">=": ">=", "<=": "<=", ">": ">", "<": "<", "!": "!=", "=": "="}


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

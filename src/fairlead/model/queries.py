"""What is asked of a list: conditions, a word to search for, an order, and one page of it."""

from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

Operator = Literal["=", "!=", "<", "<=", ">", ">=", "until", "contains", "in"]
Item = TypeVar("Item")


@dataclass(frozen=True)
class Condition:
    """What must hold of a column. None is equal to nothing but None; `until`: at most a value, or None."""

    column: str
    operator: Operator
    value: Any


@dataclass(frozen=True)
class Query:
    """One page of a list. `after` is the order's value and the id of the last item that was seen."""

    conditions: tuple[Condition, ...] = ()
    search: str = ""
    sort: str = "id"
    descending: bool = False
    after: tuple[Any, str] | None = None
    limit: int = 50


@dataclass(frozen=True)
class Page(Generic[Item]):
    """Items of a list, and the cursor with which the next page is asked for; None at the end."""

    items: list[Item]
    next_cursor: str | None = None
    total: int | None = None

"""List queries: conditions, search, order and pagination."""

from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

Operator = Literal["=", "!=", "<", "<=", ">", ">=", "until", "contains", "in"]
Item = TypeVar("Item")


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
    limit: int = 50


@dataclass(frozen=True)
class Page(Generic[Item]):
    """A page of a list. `next_cursor` is None on the last page."""

    items: list[Item]
    next_cursor: str | None = None
    total: int | None = None  # None: not requested, because counting reads all matching rows

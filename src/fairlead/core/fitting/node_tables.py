"""All nodes of a cluster in columns, so that thousands of them are looked at in milliseconds."""

from collections.abc import Callable, Iterable, Iterator
from copy import copy
from dataclasses import replace
from typing import Any, NamedTuple, Self, TypeVar

from fairlead.model.nodes import Amounts, Holding, Labels, Node, SchedulingContext, Taint

MOST_PENDING = 64  # changes that each copy makes good for itself, before they are made good for all

T = TypeVar("T")
Column = TypeVar("Column", list[Any], dict[str, int])


class TaintSet(NamedTuple):
    """What nodes have in common that keep the same pods off."""

    taints: tuple[Taint, ...]
    unschedulable: bool


def taint_set_of(node: Node) -> TaintSet:
    """What keeps pods off a node."""
    return TaintSet(node.taints, node.unschedulable)


class NodeTable:
    """Nodes by position, with a column for each thing that every pod is held against.

    To put a node, and to copy all of them, takes the same few microseconds however many there are. A change is pending
    until somebody looks at a column; and copies share their columns, until one of them has to change one.
    """

    def __init__(self, nodes: Iterable[Node] = (), context: SchedulingContext | None = None) -> None:
        self.context = context or SchedulingContext()
        self.noun = "run"  # what those are called that hold something
        self.can_see: Callable[[str], bool] = lambda _project: True  # whether the reader may know whose run it is
        self._nodes: list[Node] = []
        self._names: list[str] = []
        self._labels: list[Labels] = []
        self._taint_sets: list[TaintSet] = []
        self._capacity: dict[str, list[int]] = {}
        self._free: dict[str, list[int]] = {}
        self._positions: dict[str, int] = {}
        self._known_taint_sets: dict[TaintSet, TaintSet] = {}
        self._pending: dict[str, Node | None] = {}
        self._prepared: dict[str, Any] = {}
        self._own: set[int] = set()  # the columns, by their ids, that no other grid has
        for node in nodes:
            self.put(node)

    def __len__(self) -> int:
        return len(self.nodes)

    def __iter__(self) -> Iterator[Node]:
        return iter(self.nodes)

    def put(self, node: Node) -> None:
        """Add a node, or put it in the place of the one of that name."""
        self._pending[node.name] = node
        self._prepared = {}

    def remove(self, name: str) -> None:
        """Take a node out. The last one moves to its position."""
        self._pending[name] = None
        self._prepared = {}

    def copy(self) -> Self:
        """The same nodes, which stay as they are while this grid goes on changing."""
        if len(self._pending) > MOST_PENDING:
            self._settle()
        other = copy(self)
        other._capacity, other._free, other._pending = self._capacity.copy(), self._free.copy(), self._pending.copy()
        self._own, other._own, other._prepared = set(), set(), {}
        return other

    def without(self, run_id: str) -> Self:
        """The same nodes once a run has ended."""
        left = self.copy()
        for node in self.nodes:
            if any(held.run_id == run_id for held in node.holdings):
                left.put(replace(node, holdings=tuple(held for held in node.holdings if held.run_id != run_id)))
        return left

    def visible_to(self, can_see: Callable[[str], bool]) -> Self:
        """The same nodes for a reader who may know of the runs of some projects only."""
        other = self.copy()
        other.can_see = can_see
        return other

    def visible_name(self, holding: Holding) -> str | None:
        """The name of what holds something, where the reader may know it."""
        return holding.name if holding.name is not None and self.can_see(holding.project) else None

    @property
    def nodes(self) -> list[Node]:
        """All of them."""
        self._settle()
        return self._nodes

    @property
    def names(self) -> list[str]:
        """Their names."""
        self._settle()
        return self._names

    @property
    def labels(self) -> list[Labels]:
        """Their labels."""
        self._settle()
        return self._labels

    @property
    def taint_sets(self) -> list[TaintSet]:
        """What keeps pods off them; of equal ones, the same."""
        self._settle()
        return self._taint_sets

    @property
    def all_taint_sets(self) -> list[TaintSet]:
        """Each kind that there is, once."""
        return self.cached("kinds", lambda: list({id(taint_set): taint_set for taint_set in self.taint_sets}.values()))

    @property
    def capacity(self) -> dict[str, list[int]]:
        """What they have of each resource."""
        self._settle()
        return self._capacity

    @property
    def free(self) -> dict[str, list[int]]:
        """What is left of it; less than nothing where it is overdrawn."""
        self._settle()
        return self._free

    def cached(self, key: str, prepare: Callable[[], T]) -> T:
        """What was prepared for all nodes under a key, as long as they stay as they are."""
        if key not in self._prepared:
            self._prepared[key] = prepare()
        found: T = self._prepared[key]
        return found

    def position_of(self, name: str) -> int | None:
        """The position of a node."""
        self._settle()
        return self._positions.get(name)

    def _settle(self) -> None:
        """Make good what is pending."""
        if self._pending:
            pending, self._pending = self._pending, {}
            for name, node in pending.items():
                if node is None:
                    self._remove(name)
                else:
                    self._put(node)

    def _put(self, node: Node) -> None:
        taint_set = taint_set_of(node)
        taint_set = self._known_taint_sets.setdefault(taint_set, taint_set)
        if node.name not in self._positions:
            self._add(node, taint_set)
        position = self._positions[node.name]
        self._nodes = self._set(self._nodes, position, node)
        self._labels = self._set(self._labels, position, node.labels)
        self._taint_sets = self._set(self._taint_sets, position, taint_set)
        self._set_amounts(self._capacity, position, node.capacity)
        self._set_amounts(self._free, position, node.left)

    def _add(self, node: Node, taint_set: TaintSet) -> None:
        self._own_all()
        self._positions[node.name] = len(self._nodes)
        self._nodes.append(node)
        self._names.append(node.name)
        self._labels.append(node.labels)
        self._taint_sets.append(taint_set)
        for column in (*self._capacity.values(), *self._free.values()):
            column.append(0)

    def _remove(self, name: str) -> None:
        if name not in self._positions:
            return
        self._own_all()
        position = self._positions.pop(name)
        columns: tuple[list[Any], ...] = (self._nodes, self._names, self._labels, self._taint_sets)
        for column in (*columns, *self._capacity.values(), *self._free.values()):
            last = column.pop()
            if position < len(column):
                column[position] = last
        if position < len(self._names):
            self._positions[self._names[position]] = position

    def _set(self, column: list[T], position: int, value: T) -> list[T]:
        if column[position] is value:
            return column
        column = self._mine(column)
        column[position] = value
        return column

    def _set_amounts(self, columns: dict[str, list[int]], position: int, amounts: Amounts) -> None:
        for name in amounts:
            if name not in columns:
                columns[name] = self._mine([0] * len(self._nodes))
        for name, column in columns.items():
            if column[position] != (amount := amounts.get(name, 0)):
                columns[name] = self._mine(column)
                columns[name][position] = amount

    def _own_all(self) -> None:
        self._positions = self._mine(self._positions)
        self._nodes, self._names = self._mine(self._nodes), self._mine(self._names)
        self._labels, self._taint_sets = self._mine(self._labels), self._mine(self._taint_sets)
        for columns in (self._capacity, self._free):
            for name, column in columns.items():
                columns[name] = self._mine(column)

    def _mine(self, column: Column) -> Column:
        """A column to write to, which no other grid has."""
        if id(column) in self._own:
            return column
        mine = column.copy()
        self._own.add(id(mine))
        return mine

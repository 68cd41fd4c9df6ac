"""The nodes of a cluster in columns, so that thousands of nodes can be filtered in milliseconds."""

from collections.abc import Callable, Iterable, Iterator
from copy import copy
from dataclasses import replace
from typing import Any, NamedTuple, Self, TypeVar

from fairlead.model.nodes import Amounts, Labels, Node, ScheduledPod, SchedulingContext, Taint

MAX_PENDING = 64  # changes that each copy may apply itself; if there are more, the original applies them first

T = TypeVar("T")
Column = TypeVar("Column", list[Any], dict[str, int])


class TaintSet(NamedTuple):
    """The taints of a node and whether it is cordoned. Many nodes share the same set."""

    taints: tuple[Taint, ...]
    unschedulable: bool


def taint_set_of(node: Node) -> TaintSet:
    """The taints of a node and whether it is cordoned."""
    return TaintSet(node.taints, node.unschedulable)


class NodeTable:
    """Nodes by position, with one column for each property that filters use.

    `put` and `copy` take microseconds for any number of nodes: changes are applied when a column is read, and copies
    share their columns until one of them changes (copy on write).
    """

    def __init__(self, nodes: Iterable[Node] = (), context: SchedulingContext | None = None) -> None:
        self.context = context or SchedulingContext()
        self.noun = "run"  # the word in messages for anything that uses resources: run or pod
        self.can_see: Callable[[str], bool] = lambda _project: True  # whether the reader may see runs of a project
        self._nodes: list[Node] = []
        self._names: list[str] = []
        self._labels: list[Labels] = []
        self._taint_sets: list[TaintSet] = []
        self._capacity: dict[str, list[int]] = {}
        self._free: dict[str, list[int]] = {}
        self._positions: dict[str, int] = {}
        # Maps equal taint sets to the same object. Copies of the table share this mapping, because it only grows.
        self._known_taint_sets: dict[TaintSet, TaintSet] = {}
        # Changes that are not yet in the columns, by node name. None: the node is removed.
        self._pending: dict[str, Node | None] = {}
        self._prepared: dict[str, Any] = {}
        self._own: set[int] = set()  # `id()` of each column that no other table shares
        for node in nodes:
            self.put(node)

    def __len__(self) -> int:
        return len(self.nodes)

    def __iter__(self) -> Iterator[Node]:
        return iter(self.nodes)

    def put(self, node: Node) -> None:
        """Add a node, or replace the node with the same name."""
        # Only the last change is stored, because nodes change more often than tables are read.
        self._pending[node.name] = node
        self._prepared = {}

    def remove(self, name: str) -> None:
        """Remove a node. The last node moves to its position."""
        self._pending[name] = None
        self._prepared = {}

    def copy(self) -> Self:
        """A copy that is not affected by later changes to this table."""
        # Without this, each copy would apply the same changes and make its own copy of each changed column.
        if len(self._pending) > MAX_PENDING:
            self._apply_pending()
        other = copy(self)
        other._capacity, other._free, other._pending = self._capacity.copy(), self._free.copy(), self._pending.copy()
        # From now on both tables share all columns, so neither may change one in place.
        self._own, other._own, other._prepared = set(), set(), {}
        return other

    def without(self, run_id: str) -> Self:
        """A copy in which a run has ended."""
        other = self.copy()
        for node in self.nodes:
            if any(pod.run_id == run_id for pod in node.pods):
                other.put(replace(node, pods=tuple(pod for pod in node.pods if pod.run_id != run_id)))
        return other

    def visible_to(self, can_see: Callable[[str], bool]) -> Self:
        """A copy for a reader who may only see the runs of some projects."""
        other = self.copy()
        other.can_see = can_see
        return other

    def visible_name(self, pod: ScheduledPod) -> str | None:
        """The name of a run or pod, or None if the reader may not see it."""
        return pod.name if pod.name is not None and self.can_see(pod.project) else None

    @property
    def nodes(self) -> list[Node]:
        """All nodes, by position."""
        self._apply_pending()
        return self._nodes

    @property
    def names(self) -> list[str]:
        """The names of all nodes, by position."""
        self._apply_pending()
        return self._names

    @property
    def labels(self) -> list[Labels]:
        """The labels of all nodes, by position."""
        self._apply_pending()
        return self._labels

    @property
    def taint_sets(self) -> list[TaintSet]:
        """The taint set of each node. Equal sets are the same object, so that callers can compare them by `id()`."""
        self._apply_pending()
        return self._taint_sets

    @property
    def all_taint_sets(self) -> list[TaintSet]:
        """The distinct taint sets."""
        return self.cached("kinds", lambda: list({id(taint_set): taint_set for taint_set in self.taint_sets}.values()))

    @property
    def capacity(self) -> dict[str, list[int]]:
        """Allocatable amounts by resource."""
        self._apply_pending()
        return self._capacity

    @property
    def free(self) -> dict[str, list[int]]:
        """Free amounts by resource; negative if overcommitted."""
        self._apply_pending()
        return self._free

    def cached(self, key: str, prepare: Callable[[], T]) -> T:
        """The value that `prepare` computed from all nodes, cached until a node changes."""
        if key not in self._prepared:
            self._prepared[key] = prepare()
        value: T = self._prepared[key]
        return value

    def position_of(self, name: str) -> int | None:
        """The position of a node, or None."""
        self._apply_pending()
        return self._positions.get(name)

    def _apply_pending(self) -> None:
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
        self._set_amounts(self._free, position, node.remaining)

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
            # Moving the last entry avoids shifting all entries after the removed node.
            last = column.pop()
            if position < len(column):
                column[position] = last
        if position < len(self._names):
            self._positions[self._names[position]] = position

    def _set(self, column: list[T], position: int, value: T) -> list[T]:
        # Most changes to a node add pods, so its labels and taints remain the same objects.
        if column[position] is value:
            return column
        column = self._writable(column)
        column[position] = value
        return column

    def _set_amounts(self, columns: dict[str, list[int]], position: int, amounts: Amounts) -> None:
        for name in amounts:
            if name not in columns:
                columns[name] = self._writable([0] * len(self._nodes))
        # This includes resources that the node no longer has: they become 0.
        for name, column in columns.items():
            if column[position] != (amount := amounts.get(name, 0)):
                columns[name] = self._writable(column)
                columns[name][position] = amount

    def _own_all(self) -> None:
        self._positions = self._writable(self._positions)
        self._nodes, self._names = self._writable(self._nodes), self._writable(self._names)
        self._labels, self._taint_sets = self._writable(self._labels), self._writable(self._taint_sets)
        for columns in (self._capacity, self._free):
            for name, column in columns.items():
                columns[name] = self._writable(column)

    def _writable(self, column: Column) -> Column:
        """The column itself if no other table shares it, else a copy."""
        # The `id()` stays valid, because a table never drops a column that it owns.
        if id(column) in self._own:
            return column
        own = column.copy()
        self._own.add(id(own))
        return own

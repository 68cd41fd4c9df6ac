"""Indexes of what is on nodes, such as pods by label, which all copies of a node table share.

A scan of 150,000 pods takes 30 ms, and a lookup in an index less than 1 ms. Building an index takes 10 microseconds per
node, and it is never changed afterwards. A table whose nodes have changed since then reads these nodes themselves and
all others from the index, so a pod event costs nothing until a request uses the index.
"""

from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Generic, NamedTuple, TypeVar

from fairlead.model.nodes import BLOCK_SIZE, AntiAffinityTerm, Node, NodeTable, ScheduledPod

# An index is built again when more nodes than these have changed: a number, or a part of all nodes if that is more.
# Reading that many nodes takes 1 ms in a table with 5,000 nodes.
MAX_CHANGED, MAX_CHANGED_PART = 16, 1 / 16
# Users choose the labels in selectors, so the number of indexes is limited. One of 150,000 pods takes 3 to 30 MB.
MAX_INDEXES = 8

Key = TypeVar("Key", bound=Hashable)
Item = TypeVar("Item")
Postings = dict[Key, tuple[list[int], list[Item]]]
ListItems = Callable[[Node], list[tuple[Key, Item]]]


class PodKey(NamedTuple):
    """The key of a pod in the index of a label."""

    value: str
    namespace: str
    terminating: bool


@dataclass(frozen=True)
class NodeIndex(Generic[Key, Item]):
    """Positions of nodes and the items that are on them, by the key of the item, in the order of positions."""

    nodes: list[Node]  # the nodes that it was built from, by position
    blocks: list[object]  # see `NodeTable.blocks`
    by_key: Postings[Key, Item]

    def find_changed(self, table: NodeTable) -> list[int]:
        """The positions of nodes in a table that are not in the index."""
        nodes, known = table.nodes, len(self.nodes)
        changed = [
            number
            for number, block in enumerate(table.blocks)
            if number >= len(self.blocks) or block is not self.blocks[number]
        ]
        positions = chain.from_iterable(range(number * BLOCK_SIZE, (number + 1) * BLOCK_SIZE) for number in changed)
        return [at for at in positions if at < len(nodes) and (at >= known or nodes[at] is not self.nodes[at])]


class IndexedNodes(Generic[Key, Item]):
    """An index for one table, with the items on nodes that have changed since the index was built."""

    def __init__(
        self, index: NodeIndex[Key, Item], size: int, changed: Collection[int], others: Postings[Key, Item]
    ) -> None:
        self._by_key = index.by_key
        self._size = size  # of the table
        self._changed = frozenset(changed)
        self._others = others
        self._is_current = not changed and size == len(index.nodes)

    @property
    def examples(self) -> dict[Key, Item]:
        """One item for each key in the table, and possibly for some keys that are no longer in it."""
        return {key: items[0] for by_key in (self._by_key, self._others) for key, (_, items) in by_key.items()}

    def count(self, keys: Iterable[Key]) -> int:
        """The approximate number of items with these keys."""
        return sum(len(self._by_key[key][0]) for key in keys if key in self._by_key)

    def find_positions(self, keys: Collection[Key]) -> Sequence[int]:
        """The positions of the nodes with these keys, in order, once for each item."""
        # The items are not read here: they are scattered in memory, and reading each takes 0.1 microseconds.
        found = [self._by_key[key][0] for key in keys if key in self._by_key]
        if self._is_current:
            return found[0] if len(found) == 1 else sorted(chain.from_iterable(found))
        changed, size = self._changed, self._size
        unchanged = (at for at in chain.from_iterable(found) if at not in changed and at < size)
        others = (self._others[key][0] for key in keys if key in self._others)
        return sorted(chain(unchanged, chain.from_iterable(others)))

    def find(self, keys: Collection[Key]) -> list[tuple[int, Item]]:
        """The positions of the nodes with these keys, in order, each with the item."""
        changed, size = self._changed, self._size
        found = [
            pair
            for key in keys
            if key in self._by_key
            for pair in zip(*self._by_key[key], strict=True)
            if pair[0] not in changed and pair[0] < size
        ]
        found += chain.from_iterable(zip(*self._others[key], strict=True) for key in keys if key in self._others)
        found.sort(key=lambda pair: pair[0])
        return found


def pods_by_label(table: NodeTable, label: str) -> IndexedNodes[PodKey, ScheduledPod]:
    """The pods that have a label, by its value."""

    def list_pods(node: Node) -> list[tuple[PodKey, ScheduledPod]]:
        return [
            (PodKey(value, pod.namespace, pod.terminating), pod)
            for pod in node.pods
            if (value := pod.labels.get(label)) is not None
        ]

    return _find_index(table, f"label {label}", list_pods)


def anti_affinity_terms(table: NodeTable) -> IndexedNodes[str, AntiAffinityTerm]:
    """The required anti-affinity terms of the pods on nodes, by the key of the term."""
    return _find_index(table, "anti-affinity", lambda node: [(term.key, term) for term in node.anti_affinity_terms])


def _find_index(table: NodeTable, name: str, list_items: ListItems[Key, Item]) -> IndexedNodes[Key, Item]:
    def prepare() -> IndexedNodes[Key, Item]:
        nodes, blocks = table.nodes, table.blocks
        index: NodeIndex[Key, Item] | None = table.indexes.get(name)
        if index is not None:
            changed = index.find_changed(table)
            if len(changed) <= max(MAX_CHANGED, MAX_CHANGED_PART * len(nodes)):
                return IndexedNodes(index, len(nodes), changed, _build(nodes, changed, list_items))
        if len(table.indexes) >= MAX_INDEXES:
            table.indexes.clear()
        by_key = _build(nodes, range(len(nodes)), list_items)
        table.indexes[name] = index = NodeIndex(nodes.copy(), blocks.copy(), by_key)
        return IndexedNodes(index, len(nodes), [], {})

    return table.cached(f"index {name}", prepare)


def _build(nodes: Sequence[Node], positions: Iterable[int], list_items: ListItems[Key, Item]) -> Postings[Key, Item]:
    by_key: Postings[Key, Item] = {}
    for at in positions:
        for key, item in list_items(nodes[at]):
            if (postings := by_key.get(key)) is None:
                postings = by_key[key] = [], []
            postings[0].append(at)
            postings[1].append(item)
    return by_key

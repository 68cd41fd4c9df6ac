"""What would be if nodes came or went: a cluster as an administrator imagines it."""

import re
from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count, islice

from fairlead.core.descriptions.facts import listed
from fairlead.core.fitting import matching
from fairlead.core.fitting.capacity import gpu_type_of, group_of
from fairlead.core.fitting.node_tables import NodeTable
from fairlead.errors import RequestRejected
from fairlead.model.nodes import Node
from fairlead.model.parsing import nearest, show
from fairlead.model.plans import Violation
from fairlead.model.scopes import Cluster

HOSTNAME = "kubernetes.io/hostname"
SEVERAL = re.compile(r"([0-9]{1,9})x(.+)", re.ASCII | re.DOTALL)
MOST_ADDED = 5000
MOST_NAMED = 4

NodesByName = Mapping[str, Sequence[Node]]  # by name, the nodes that are called so


@dataclass(frozen=True)
class NodeAddition:
    """So many nodes like one that is there."""

    count: int
    like: str


@dataclass(frozen=True)
class AddedNodes:
    """Empty nodes that were added, and the node that they are like."""

    like: str
    names: tuple[str, ...]


@dataclass(frozen=True)
class WhatIfCluster:
    """A cluster with other nodes than it has. Pods that were on nodes which are left out are not placed anew."""

    table: NodeTable
    added: tuple[AddedNodes, ...] = ()
    left_out: tuple[str, ...] = ()
    pods_left_out: int = 0

    @property
    def sentences(self) -> list[str]:
        """What is supposed, in words; nothing where the cluster is as it is."""
        told = [f"{_count(len(part.names), 'empty node')} like {part.like}: {_name(part.names)}" for part in self.added]
        if self.left_out:
            gone = f"without {_count(len(self.left_out), 'node')}: {_name(self.left_out)}"
            pods = _count(self.pods_left_out, "pod")
            verb = "is" if self.pods_left_out == 1 else "are"
            told.append(f"{gone}; {pods} there {verb} not placed anew" if self.pods_left_out else f"{gone}, empty")
        return told


def simulate(
    table: NodeTable, add: Sequence[str] = (), without: Sequence[str] = (), *, cluster: Cluster | None = None
) -> WhatIfCluster:
    """The cluster with more nodes, `2xNAME` or `NAME`, and without others. Raise `RequestRejected` with all mistakes.

    A name is that of a node, of a node group or of a type of GPU. What is added is like the first node of these.
    """
    if not add and not without:
        return WhatIfCluster(table)
    known = _find_names(table, cluster)
    additions = [parse_addition(text, known) for text in add]
    violations = [*_check_additions(add, additions, known), *_check_names("without", without, known)]
    if violations:
        raise RequestRejected(violations)
    gone = {node.name: node for name in without for node in known[name]}
    other = table.copy()
    for name in gone:
        other.remove(name)
    added = tuple(_add(other, known[each.like][0], each.count, table) for each in additions)
    return WhatIfCluster(other, added, tuple(sorted(gone)), sum(len(node.holdings) for node in gone.values()))


def parse_addition(text: str, known: Container[str] = ()) -> NodeAddition:
    """`2xNAME` is two, `NAME` is one; a known name that looks like several of another is that name."""
    match = None if text in known else SEVERAL.fullmatch(text)
    return NodeAddition(1, text) if match is None else NodeAddition(int(match[1]), match[2])


def resemble(node: Node, name: str) -> Node:
    """A new node like another: empty and well, with a name of its own."""
    return replace(
        node,
        name=name,
        labels={**node.labels, HOSTNAME: name},
        holdings=(),
        taints=tuple(taint for taint in node.taints if not matching.is_temporary(taint)),
        unschedulable=False,
    )


def _find_names(table: NodeTable, cluster: Cluster | None) -> NodesByName:
    """What nodes can be called by: their own names, their groups, and the types of their GPUs."""
    cluster = cluster or Cluster(name="any")
    nodes = sorted(table, key=lambda node: node.name)
    products = _gather((gpu_type_of(node, cluster.gpu_product_label), node) for node in nodes)
    types = _gather(
        (name, node) for name, meant in cluster.gpu_types.items() for product in meant for node in products[product]
    )
    groups = _gather((group_of(node.labels), node) for node in nodes)
    # The strongest last: a node goes before a group of its name.
    found = {**types, **products, **groups, **{node.name: [node] for node in nodes}}
    return {name: those for name, those in found.items() if name and those}


def _gather(named: Iterable[tuple[str, Node]]) -> defaultdict[str, list[Node]]:
    found: defaultdict[str, list[Node]] = defaultdict(list)
    for name, node in named:
        found[name].append(node)
    return found


def _check_additions(
    texts: Sequence[str], additions: Sequence[NodeAddition], known: NodesByName
) -> Iterator[Violation]:
    yield from _check_names("add_nodes", [addition.like for addition in additions], known)
    for at, (text, addition) in enumerate(zip(texts, additions, strict=True)):
        if not addition.count and addition.like in known:
            yield Violation(f"add_nodes.{at}", "range", f"adds none, found {show(text)}", f"say 1x{addition.like}")
    if (total := sum(addition.count for addition in additions)) > MOST_ADDED:
        message = f"adds {total:,} nodes; at most {MOST_ADDED:,} are supposed at once"
        yield Violation("add_nodes", "range", message, "add fewer")


def _check_names(field: str, names: Sequence[str], known: NodesByName) -> Iterator[Violation]:
    for at, name in enumerate(names):
        if name not in known:
            message = f"there is no node, node group or GPU type {show(name)}"
            yield Violation(f"{field}.{at}", "unknown_node", message, nearest(name, known))


def _add(table: NodeTable, like: Node, number: int, before: NodeTable) -> AddedNodes:
    """Nodes with names that none has, nor had."""
    free = (
        name
        for at in count(1)
        if before.position_of(name := f"{like.name}+{at}") is None and table.position_of(name) is None
    )
    names = tuple(islice(free, number))
    for name in names:
        table.put(resemble(like, name))
    return AddedNodes(like.name, names)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _name(names: Sequence[str]) -> str:
    return listed(names, most=MOST_NAMED)

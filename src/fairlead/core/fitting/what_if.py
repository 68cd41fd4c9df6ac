"""Simulates a cluster with added or removed nodes (what-if)."""

import re
from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count, islice

from fairlead.core.descriptions.facts import format_list
from fairlead.core.fitting import matching
from fairlead.core.fitting.capacity import gpu_type_of, group_of
from fairlead.core.fitting.node_tables import NodeTable
from fairlead.errors import RequestRejected
from fairlead.model.nodes import Node
from fairlead.model.parsing import short_repr, suggest_names
from fairlead.model.plans import Violation
from fairlead.model.scopes import Cluster

HOSTNAME = "kubernetes.io/hostname"
# At most nine digits, because int() raises ValueError for thousands of them.
ADDITION = re.compile(r"([0-9]{1,9})x(.+)", re.ASCII | re.DOTALL)
MAX_ADDED_NODES = 5000  # the largest cluster that Kubernetes supports
MAX_NAMED = 4

NodesByName = Mapping[str, Sequence[Node]]  # by node name, node group or GPU type


@dataclass(frozen=True)
class NodeAddition:
    """A number of nodes to add, and the node, group or GPU type to copy."""

    count: int
    like: str


@dataclass(frozen=True)
class AddedNodes:
    """Empty nodes that were added, and the node they were copied from."""

    like: str
    names: tuple[str, ...]


@dataclass(frozen=True)
class WhatIfCluster:
    """A cluster with added and removed nodes. Pods on removed nodes are not rescheduled."""

    table: NodeTable
    added_nodes: tuple[AddedNodes, ...] = ()
    removed_nodes: tuple[str, ...] = ()
    removed_pods: int = 0

    @property
    def sentences(self) -> list[str]:
        """Descriptions of the changes."""
        sentences = [
            f"{_count(len(part.names), 'empty node')} like {part.like}: {_name(part.names)}"
            for part in self.added_nodes
        ]
        if self.removed_nodes:
            removed = f"without {_count(len(self.removed_nodes), 'node')}: {_name(self.removed_nodes)}"
            pods = _count(self.removed_pods, "pod")
            verb = "is" if self.removed_pods == 1 else "are"
            detail = f"; {pods} there {verb} not rescheduled" if self.removed_pods else " (empty)"
            sentences.append(f"{removed}{detail}")
        return sentences


def simulate(
    table: NodeTable, add: Sequence[str] = (), without: Sequence[str] = (), *, cluster: Cluster | None = None
) -> WhatIfCluster:
    """A cluster with nodes added (`2xNAME` or `NAME`) and removed. Raises `RequestRejected` with all errors.

    NAME is a node, a node group or a GPU type. Added nodes are copies of the first node with that name.
    """
    if not add and not without:
        return WhatIfCluster(table)
    known = _find_names(table, cluster)
    additions = [parse_addition(text, known) for text in add]
    violations = [*_check_additions(add, additions, known), *_check_names("without", without, known)]
    if violations:
        raise RequestRejected(violations)
    removed = {node.name: node for name in without for node in known[name]}
    changed = table.copy()
    for name in removed:
        changed.remove(name)
    added_nodes = tuple(_add(changed, known[each.like][0], each.count, table) for each in additions)
    return WhatIfCluster(changed, added_nodes, tuple(sorted(removed)), sum(len(node.pods) for node in removed.values()))


def parse_addition(text: str, known: Container[str] = ()) -> NodeAddition:
    """Parse `2xNAME` (two nodes) or `NAME` (one node)."""
    # A node may have a name like "2xlarge", so known names are not split.
    match = None if text in known else ADDITION.fullmatch(text)
    return NodeAddition(1, text) if match is None else NodeAddition(int(match[1]), match[2])


def copy_node(node: Node, name: str) -> Node:
    """An empty and healthy copy of a node, with a new name."""
    return replace(
        node,
        name=name,
        # Otherwise, pods that must not share a host would treat all copies as one host.
        labels={**node.labels, HOSTNAME: name},
        pods=(),
        taints=tuple(taint for taint in node.taints if not matching.is_temporary(taint)),
        unschedulable=False,
    )


def _find_names(table: NodeTable, cluster: Cluster | None) -> NodesByName:
    """Nodes by every name that a user may enter: node name, node group, GPU product and GPU type."""
    cluster = cluster or Cluster(name="any")
    # Sorted, so that the first node of a group does not depend on the order in which nodes were read.
    nodes = sorted(table, key=lambda node: node.name)
    products = _gather((gpu_type_of(node, cluster.gpu_product_label), node) for node in nodes)
    types = _gather(
        (name, node) for name, known in cluster.gpu_types.items() for product in known for node in products[product]
    )
    groups = _gather((group_of(node.labels), node) for node in nodes)
    # Later entries replace earlier ones: a node name takes precedence over a group with the same name.
    by_name = {**types, **products, **groups, **{node.name: [node] for node in nodes}}
    return {name: named for name, named in by_name.items() if name and named}


def _gather(pairs: Iterable[tuple[str, Node]]) -> defaultdict[str, list[Node]]:
    by_name: defaultdict[str, list[Node]] = defaultdict(list)
    for name, node in pairs:
        by_name[name].append(node)
    return by_name


def _check_additions(
    texts: Sequence[str], additions: Sequence[NodeAddition], known: NodesByName
) -> Iterator[Violation]:
    yield from _check_names("add_nodes", [addition.like for addition in additions], known)
    for at, (text, addition) in enumerate(zip(texts, additions, strict=True)):
        if not addition.count and addition.like in known:
            yield Violation(
                f"add_nodes.{at}",
                "range",
                f"must add at least one node, found {short_repr(text)}",
                f"use 1x{addition.like}",
            )
    if (total := sum(addition.count for addition in additions)) > MAX_ADDED_NODES:
        message = f"adds {total:,} nodes; at most {MAX_ADDED_NODES:,} are allowed"
        yield Violation("add_nodes", "range", message, "add fewer nodes")


def _check_names(field: str, names: Sequence[str], known: NodesByName) -> Iterator[Violation]:
    for at, name in enumerate(names):
        if name not in known:
            message = f"no node, node group or GPU type is named {short_repr(name)}"
            yield Violation(f"{field}.{at}", "unknown_node", message, suggest_names(name, known))


def _add(table: NodeTable, like: Node, number: int, before: NodeTable) -> AddedNodes:
    # A removed node's name is not reused, because messages still mention it.
    free = (
        name
        for at in count(1)
        if before.position_of(name := f"{like.name}+{at}") is None and table.position_of(name) is None
    )
    names = tuple(islice(free, number))
    for name in names:
        table.put(copy_node(like, name))
    return AddedNodes(like.name, names)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _name(names: Sequence[str]) -> str:
    return format_list(names, most=MAX_NAMED)

"""Reports on whether requests and pending pods fit on a cluster, either as it is or with what-if changes."""

import re
from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count, islice
from typing import Any

from fairlead.errors import RequestRejected
from fairlead.model import explanations
from fairlead.model.nodes import Node, NodeTable, PodRequest
from fairlead.model.parsing import short_repr, suggest_names
from fairlead.model.plans import AddedNodes, Fit, FitReport, NodeFit, Plan, Violation, WhatIfChanges
from fairlead.model.scopes import Cluster
from fairlead.planning.capacity import gpu_type_of, group_of
from fairlead.scheduling import evaluation, quotas, selectors
from fairlead.scheduling.filters import NodeFilter, place
from fairlead.scheduling.pod_requests import read_pod
from fairlead.scheduling.quotas import Allowance, QuotaAmounts
from fairlead.scheduling.readers import ENDED
from fairlead.scheduling.reasons import format_list

HOSTNAME = "kubernetes.io/hostname"
# At most nine digits, because int() raises ValueError for thousands of them.
ADDITION = re.compile(r"([0-9]{1,9})x(.+)", re.ASCII | re.DOTALL)
MAX_ADDED_NODES = 5000  # the largest cluster that Kubernetes supports
MAX_NAMED = 4

NodesByName = Mapping[str, Sequence[Node]]  # by node name, node group or GPU type

MAX_ROOM = 1000

WEIGHED = ("cpu", "memory")  # resources that kube-scheduler scores to find the least allocated node

JSON = Mapping[str, Any]


@dataclass(frozen=True)
class NodeAddition:
    """A number of nodes to add, and the node, group or GPU type to copy."""

    count: int
    like: str


@dataclass(frozen=True)
class WhatIfCluster:
    """A cluster with added and removed nodes. Pods on removed nodes are not rescheduled."""

    table: NodeTable
    added_nodes: tuple[AddedNodes, ...] = ()
    removed_nodes: tuple[str, ...] = ()
    removed_pods: int = 0

    @property
    def changes(self) -> WhatIfChanges:
        """The changes, with a description of each."""
        sentences = [
            f"{_count(len(part.names), 'empty node')} like {part.like}: {_format_names(part.names)}"
            for part in self.added_nodes
        ]
        if self.removed_nodes:
            removed = f"without {_count(len(self.removed_nodes), 'node')}: {_format_names(self.removed_nodes)}"
            pods = _count(self.removed_pods, "pod")
            verb = "is" if self.removed_pods == 1 else "are"
            detail = f"; {pods} there {verb} not rescheduled" if self.removed_pods else " (empty)"
            sentences.append(f"{removed}{detail}")
        return WhatIfChanges(list(self.added_nodes), list(self.removed_nodes), self.removed_pods, sentences)


def simulate_cluster(
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
    added_nodes = tuple(_add_nodes(changed, known[each.like][0], each.count, table) for each in additions)
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
        taints=tuple(taint for taint in node.taints if not selectors.is_temporary(taint)),
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


def _add_nodes(table: NodeTable, like: Node, number: int, before: NodeTable) -> AddedNodes:
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


def _format_names(names: Sequence[str]) -> str:
    return format_list(names, most=MAX_NAMED)


def build_report(
    plan: Plan,
    cluster: WhatIfCluster,
    *,
    autoscaled: bool = False,
    all_nodes: bool = False,
    allowances: Sequence[Allowance] = (),
) -> FitReport:
    """The report on a plan, with reasons for the closest nodes or for all nodes."""
    changes = cluster.changes
    if plan.violations or plan.demand is None:
        return replace(report_violations(plan), what_if=changes)
    pod_request, table = plan.demand.pod_request, cluster.table
    load = QuotaAmounts.of(plan.demand.resources)
    fit = quotas.apply_quotas(evaluation.evaluate(pod_request, table, autoscaled=autoscaled), load, allowances)
    # The verdict includes quotas: a run that would exceed a quota cannot start now, even if nodes are free.
    room = count_fitting_runs(pod_request, table) if fit.verdict == evaluation.NOW else 0
    return FitReport(
        verdict=fit.verdict,
        reasons=list(fit.reasons),
        counts=dict(fit.counts),
        room=quotas.count_fitting_runs(load, allowances, room),
        nodes=_list_all(pod_request, table) if all_nodes else _list_nearest(fit),
        suggestions=list(fit.suggestions),
        what_if=changes,
    )


def report_violations(plan: Plan, *reasons: str) -> FitReport:
    """A report without nodes: the plan's violations, and why the cluster was not checked."""
    return FitReport(reasons=list(reasons), violations=list(map(explanations.finding_data, plan.violations)))


def count_fitting_runs(pod_request: PodRequest, table: NodeTable) -> int:
    """How many such runs fit now, with all of their pods."""
    return NodeFilter(pod_request, table).count_fitting(MAX_ROOM * pod_request.count) // pod_request.count


def _list_nearest(fit: Fit) -> list[NodeFit]:
    return [NodeFit(node["name"], node["fits"], node["reasons"]) for node in fit.nodes]


def _list_all(pod_request: PodRequest, table: NodeTable) -> list[NodeFit]:
    """All nodes: feasible ones, then those that would be feasible when empty, then the others, each group by name."""
    node_filter = NodeFilter(pod_request, table)
    ranks = dict.fromkeys(node_filter.feasible_when_empty, 1) | dict.fromkeys(node_filter.feasible, 0)
    order = sorted(range(len(table)), key=lambda at: (ranks.get(at, 2), table.names[at]))
    reasons_by_node = ((table.names[at], evaluation.list_reasons(node_filter, table.nodes[at])) for at in order)
    return [NodeFit(name, not reasons, reasons) for name, reasons in reasons_by_node]


@dataclass(frozen=True)
class PendingPod:
    """A pod without a node, with its scheduling gates."""

    name: str
    pod_request: PodRequest
    priority: int = 0
    created_at: str = ""
    gates: tuple[str, ...] = ()


@dataclass(frozen=True)
class PlacementResult:
    """The node for a pending pod, or the reasons why the pod stays pending."""

    pod: str
    verdict: str
    node: str | None
    reasons: list[str]


def read_pending_pods(items: Iterable[JSON]) -> list[PendingPod]:
    """The pending pods among Kubernetes objects, in the order in which kube-scheduler considers them."""
    pods = [_read_pending_pod(raw) for raw in items if raw["kind"] == "Pod" and is_pending(raw)]
    # Kubernetes timestamps are in UTC and have a fixed length, so they can be compared as text.
    return sorted(pods, key=lambda pod: (-pod.priority, pod.created_at, pod.name))


def is_pending(raw: JSON) -> bool:
    """Whether a pod is waiting for a node."""
    node_name, ended = raw["spec"].get("nodeName"), (raw.get("status") or {}).get("phase") in ENDED
    return not node_name and not ended and "deletionTimestamp" not in raw["metadata"]


def schedule_all(
    queue: Iterable[PendingPod], table: NodeTable, *, autoscaled: bool = False
) -> Iterator[PlacementResult]:
    """The result for each pod, given the placements of the pods before it. The table is not changed."""
    table = table.copy()
    for pod in queue:
        node_filter = NodeFilter(pod.pod_request, table)
        verdict = evaluation.decide_verdict(node_filter, autoscaled=autoscaled)
        gated = [f"waiting for scheduling gate {gate}" for gate in pod.gates]
        if verdict == evaluation.NOW:
            node = min(
                (table.nodes[at] for at in node_filter.feasible),
                key=lambda node: (-_score_node(node, pod.pod_request), node.name),
            )
            # kube-scheduler does not consider a gated pod, so it takes no capacity from the pods after it.
            if not pod.gates:
                table.put(place(pod.pod_request, node, name=pod.name))
            yield PlacementResult(
                pod.name, evaluation.LATER if pod.gates else verdict, None if pod.gates else node.name, gated
            )
        else:
            reasons = evaluation.evaluate(pod.pod_request, table, autoscaled=autoscaled).reasons
            yield PlacementResult(pod.name, verdict, None, [*gated, *reasons])


def _read_pending_pod(raw: JSON) -> PendingPod:
    meta, spec = raw["metadata"], raw["spec"]
    return PendingPod(
        name=f"{meta.get('namespace') or 'default'}/{meta['name']}",
        pod_request=read_pod(spec, meta),
        # The API server resolves the priority class to a number when the pod is created.
        priority=spec.get("priority") or 0,
        created_at=meta.get("creationTimestamp") or "",
        gates=tuple(gate["name"] for gate in spec.get("schedulingGates") or ()),
    )


def _score_node(node: Node, pod_request: PodRequest) -> float:
    """The score of kube-scheduler's LeastAllocated strategy: the mean free fraction after placing the pod."""
    free = [
        (node.free(name) - pod_request.amounts.get(name, 0)) / node.capacity[name]
        for name in WEIGHED
        if node.capacity.get(name)
    ]
    return sum(free) / len(free) if free else 0.0

"""One sentence that explains why no node can run a pod now, based on the nodes that come closest."""

from collections import Counter
from collections.abc import Sequence, Sized

from fairlead.core.fitting import matching
from fairlead.core.fitting.filtering import Columns, NodeFilter
from fairlead.core.fitting.formatting import describe_amount, describe_pair, name_resource
from fairlead.core.fitting.node_tables import NodeTable, taint_set_of
from fairlead.core.fitting.pod_requests import PodRequest
from fairlead.core.fitting.pod_resources import PODS
from fairlead.core.fitting.reasons import Cause
from fairlead.model.nodes import Node, Taint
from fairlead.model.quantities import NANOS
from fairlead.planning.descriptions import format_list

MAX_NAMED = 4


def explain_no_fit(node_filter: NodeFilter) -> str:
    """An explanation, with numbers, of why no node can run the pod now; empty if one can.

    Only the nodes that come closest are considered, in this order: nodes with room that other rules exclude, full
    nodes, unhealthy nodes, nodes with taints, nodes that are too small, and nodes without the required labels.
    """
    pod_request, table = node_filter.pod_request, node_filter.table
    if node_filter.feasible:
        return _explain_several(node_filter) if pod_request.count > 1 else ""
    if not node_filter.label_matches:
        return _explain_labels(node_filter) if len(table) else "the cluster has no nodes"
    if node_filter.with_free_resources:
        return _explain_excluded(node_filter)
    large = set(node_filter.large_enough)
    if full := [at for at in node_filter.schedulable if at in large]:
        return _explain_full(node_filter, full)
    nodes = [table.nodes[at] for at in node_filter.large_enough]
    if unhealthy := [
        node for node in nodes if all(map(matching.is_temporary, matching.find_taints(pod_request, taint_set_of(node))))
    ]:
        return _explain_unhealthy(pod_request, unhealthy)
    return _explain_taints(pod_request, nodes) if nodes else _explain_small(node_filter, node_filter.label_matches)


def _explain_several(node_filter: NodeFilter) -> str:
    pod_request = node_filter.pod_request
    fitting = node_filter.count_fitting(pod_request.count)
    if fitting >= pod_request.count:
        return ""
    each = f" with {_show_amounts(pod_request)} each" if _show_amounts(pod_request) else ""
    return f"has {pod_request.count} pods{each}; only {fitting} fit{'s' * (fitting == 1)} now"


def _explain_excluded(node_filter: NodeFilter) -> str:
    """The reason that excludes most of the nodes that have room."""
    nodes = [node_filter.table.nodes[at] for at in node_filter.with_free_resources]
    by_node = [[reason for check in node_filter.checks for reason in check(node)] for node in nodes]
    causes = Counter(cause for reasons in by_node for cause in {(each.cause, each.path) for each in reasons})
    # The nodes have room and no check excludes them, so host ports are the only possible reason left.
    if not causes:
        port = next(
            port for node in nodes if (port := matching.find_taken_port(node_filter.pod_request, node)) is not None
        )
        return f"needs host port {port.number}, which is in use on {_count(nodes, len(node_filter.table))}"
    dominant, count = causes.most_common(1)[0]
    first = next(each for reasons in by_node for each in reasons if (each.cause, each.path) == dominant)
    # Claims do not depend on the node, so their message already covers all of them.
    complete = count == 1 or first.cause in (Cause.CLAIM, Cause.IN_USE)
    others = "" if complete else f"; the same applies to {count - 1} other node{'s' * (count > 2)}"
    return f"{first.message}{others}"


def _explain_full(node_filter: NodeFilter, positions: Sequence[int]) -> str:
    pod_request, table = node_filter.pod_request, node_filter.table
    scarcest = _find_scarcest(pod_request, positions, table.free)
    counted = _count(positions, len(table), "suitable")
    if scarcest is None:
        nearest = _describe_nearest(pod_request, table, positions, table.free)
        return f"needs {_show_amounts(pod_request)} on one node; none of {counted} has all of that free; {nearest}"
    resource, at = scarcest
    best, left, total = table.nodes[at], max(table.free[resource][at], 0), table.capacity[resource][at]
    if resource == PODS:
        limit = f"{describe_amount(PODS, total)} pod{'s' * (total != NANOS)}"
        full = f"{best.name} is at its limit of {limit}"
        if len(positions) > 1:
            full = f"all {counted} are at their pod limit ({best.name}: {limit})"
        return f"needs room for one more pod; {full}"
    requested, free = describe_pair(resource, pod_request.amounts[resource], left)
    needs = f"needs {requested} {name_resource(resource, pod_request.amounts[resource])}"
    user = _describe_user(table, best, resource)
    if len(positions) == 1:
        only = "" if len(table) == 1 else ", the only suitable node"
        return f"{needs}; {free} of {describe_amount(resource, total)} free on {best.name}{only}{user}"
    if not left:
        return f"{needs} on one node; none free on any of {counted}{user}"
    return f"{needs} on one node; at most {free} free on any of {counted} ({best.name}){user}"


def _explain_small(node_filter: NodeFilter, positions: Sequence[int]) -> str:
    pod_request, table = node_filter.pod_request, node_filter.table
    scarcest, counted = _find_scarcest(pod_request, positions, table.capacity), _count(positions, len(table))
    if scarcest is None:
        nearest = _describe_nearest(pod_request, table, positions, table.capacity)
        return f"needs {_show_amounts(pod_request)}; none of {counted} has all of that; {nearest}"
    resource, at = scarcest
    total = _at(table.capacity, resource, at)
    requested, has = describe_pair(resource, pod_request.amounts[resource], total)
    needs = (
        f"needs {requested} {name_resource(resource, pod_request.amounts[resource])}"
        if resource != PODS
        else "needs room for one more pod"
    )
    if len(positions) == 1:
        only = "" if len(table) == 1 else ", the only matching node,"
        return f"{needs}; {table.names[at]}{only} has {has if total else 'none'}"
    if not total:
        return f"{needs}; none of {counted} has any"
    return f"{needs}; the largest of {counted} has {has} ({table.names[at]})"


def _explain_unhealthy(pod_request: PodRequest, nodes: Sequence[Node]) -> str:
    causes = Counter(
        "cordoned"
        if matching.is_cordoned(pod_request, taint_set_of(node))
        else f"tainted with {_taints_of(pod_request, node)[0]}"
        for node in nodes
    )
    verb = "accept" if len(nodes) > 1 else "accepts"
    return f"{_describe_suitable(nodes)} {verb} no new pods: {_describe_causes(causes)}"


def _explain_taints(pod_request: PodRequest, nodes: Sequence[Node]) -> str:
    causes = Counter(f"tainted with {taint}" for node in nodes for taint in _taints_of(pod_request, node))
    verb, whose = ("accept", "their") if len(nodes) > 1 else ("accepts", "its")
    return f"{_describe_suitable(nodes)} only {verb} pods that tolerate {whose} taints: {_describe_causes(causes)}"


def _explain_labels(node_filter: NodeFilter) -> str:
    """The required labels that no node has, or that no node has in combination."""
    pod_request, nodes = node_filter.pod_request, node_filter.table.nodes
    if pod_request.node_name:
        return f"requires node {pod_request.node_name}, which does not exist or does not have the required labels"
    required = {
        f"{key}={value}": [node for node in nodes if node.labels.get(key) == value]
        for key, value in pod_request.node_selector.items()
    }
    if pod_request.node_terms is not None:
        matches = matching.compile_terms(pod_request.node_terms)
        terms = matching.show_terms(pod_request.node_terms)
        required[terms] = [node for node in nodes if matches(node.labels, node.name)]
    missing = [label for label, having in required.items() if not having]
    checked = f"{_count(nodes, len(nodes))} checked"
    if not missing:
        parts = [f"{len(having)} {'have' if len(having) > 1 else 'has'} {label}" for label, having in required.items()]
        return f"no node has {' and '.join(required)} together: {checked}, {format_list(parts)}"
    taints = Counter(f"tainted with {taint}" for node in nodes for taint in _taints_of(pod_request, node))
    tainted = f", {_describe_causes(Counter(dict(taints.most_common(1))))}" if taints else ""
    return f"no node has {' or '.join(missing)}: {checked}{tainted}"


def _find_scarcest(pod_request: PodRequest, positions: Sequence[int], columns: Columns) -> tuple[str, int] | None:
    """The scarcest resource that every node lacks and the best node; None if nodes lack different resources."""
    short: list[tuple[float, str, int]] = []
    for resource, amount in pod_request.amounts.items():
        # Every node lacks a resource only if even the best one has too little.
        best = max(positions, key=columns[resource].__getitem__) if resource in columns else positions[0]
        if amount > (has := _at(columns, resource, best)):
            short.append((has / amount, resource, best))
    return min(short, key=lambda each: each[0])[1:] if short else None


def _describe_nearest(pod_request: PodRequest, table: NodeTable, positions: Sequence[int], columns: Columns) -> str:
    """The node that comes closest to the request, and how much it has of each resource it is short of."""

    def find_shortages(at: int) -> list[str]:
        return [name for name, amount in pod_request.amounts.items() if amount > _at(columns, name, at)]

    nearest = max(
        positions, key=lambda at: min(_at(columns, name, at) / pod_request.amounts[name] for name in find_shortages(at))
    )
    parts = []
    for resource in find_shortages(nearest):
        requested, has = describe_pair(resource, pod_request.amounts[resource], _at(columns, resource, nearest))
        parts.append(
            f"{has} of {requested} {name_resource(resource, pod_request.amounts[resource])}"
            if resource != PODS
            else "no room for a pod"
        )
    return f"{table.names[nearest]} is closest with {format_list(parts)}"


def _describe_user(table: NodeTable, node: Node, resource: str) -> str:
    """The visible run or pod that uses the most of a resource on a node."""
    visible = [(pod.amounts.get(resource, 0), name) for pod in node.pods if (name := table.visible_name(pod))]
    amount, name = max(visible, default=(0, ""))
    return f"; {table.noun} {name} uses {describe_amount(resource, amount)}" if amount else ""


def _describe_suitable(nodes: Sequence[Node]) -> str:
    names = format_list([node.name for node in nodes], most=MAX_NAMED)
    return f"{len(nodes)} suitable node{'s' * (len(nodes) > 1)} ({names})"


def _describe_causes(causes: Counter[str]) -> str:
    parts = [f"{count} {'are' if count > 1 else 'is'} {cause}" for cause, count in causes.most_common()]
    return format_list(parts, most=MAX_NAMED)


def _taints_of(pod_request: PodRequest, node: Node) -> list[Taint]:
    """The distinct taints that exclude the pod. For a cordoned node, the taint that marks it cordoned is left out."""
    cordoned = matching.is_cordoned(pod_request, taint_set_of(node))
    taints = matching.find_taints(pod_request, taint_set_of(node))
    return [taint for taint in dict.fromkeys(taints) if not (cordoned and taint.key == matching.CORDONED.key)]


def _count(nodes: Sized, total: int, adjective: str = "matching") -> str:
    """The number of nodes, with an adjective unless these are all of the cluster's nodes."""
    kind = "" if len(nodes) == total else f" {adjective}"
    return f"{len(nodes)}{kind} node{'s' * (len(nodes) > 1)}"


def _show_amounts(pod_request: PodRequest) -> str:
    parts = [
        f"{describe_amount(resource, amount)} {name_resource(resource, amount)}"
        for resource, amount in pod_request.amounts.items()
        if resource != PODS and amount
    ]
    return format_list(parts) if parts else ""


def _at(columns: Columns, resource: str, at: int) -> int:
    # Free amounts of overcommitted nodes are negative, which would confuse users.
    return max(columns[resource][at], 0) if resource in columns else 0

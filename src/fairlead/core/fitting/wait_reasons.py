"""Why a pod fits on none of many nodes now, in one sentence: the cause that stands nearest to its suggestion."""

from collections import Counter
from collections.abc import Sequence, Sized

from fairlead.core.descriptions.facts import listed
from fairlead.core.fitting import matching
from fairlead.core.fitting.filtering import Columns, NodeFilter
from fairlead.core.fitting.formatting import SIZES, name_resource, show_amount, show_distinct
from fairlead.core.fitting.node_tables import NodeTable, taint_set_of
from fairlead.core.fitting.pod_requests import PodRequest
from fairlead.core.fitting.pod_resources import PODS
from fairlead.core.fitting.reasons import Cause
from fairlead.model.nodes import Node, Taint
from fairlead.model.quantities import NANOS

MOST_NAMED = 4


def explain_no_fit(node_filter: NodeFilter) -> str:
    """Why no node takes it now, with numbers; empty where one does.

    Told of the nodes that lack the least: those that others keep it off, else those that are full, else those that
    are not well, else those whose taints keep it off, else those that are too small, else those without its labels.
    """
    pod_request, table = node_filter.pod_request, node_filter.table
    if node_filter.feasible:
        return _explain_several(node_filter) if pod_request.count > 1 else ""
    if not node_filter.label_matches:
        return _explain_labels(node_filter) if len(table) else "there is no node"
    if node_filter.with_free_resources:
        return _explain_kept_off(node_filter)
    large = set(node_filter.large_enough)
    if full := [at for at in node_filter.schedulable if at in large]:
        return _explain_full(node_filter, full)
    nodes = [table.nodes[at] for at in node_filter.large_enough]
    if unwell := [
        node for node in nodes if all(map(matching.is_temporary, matching.find_taints(pod_request, taint_set_of(node))))
    ]:
        return _explain_unwell(pod_request, unwell)
    return _explain_taints(pod_request, nodes) if nodes else _explain_small(node_filter, node_filter.label_matches)


def _explain_several(node_filter: NodeFilter) -> str:
    """Some of its pods fit now, and not all."""
    pod_request = node_filter.pod_request
    there = node_filter.count_fitting(pod_request.count)
    if there >= pod_request.count:
        return ""
    each = f" of {_show_all(pod_request)} each" if _show_all(pod_request) else ""
    return f"has {pod_request.count} pods{each}; there is room for {there} now"


def _explain_kept_off(node_filter: NodeFilter) -> str:
    """There is room, and something other than room keeps it off: what does so on most nodes."""
    nodes = [node_filter.table.nodes[at] for at in node_filter.with_free_resources]
    found = {node.name: [reason for check in node_filter.checks for reason in check(node)] for node in nodes}
    causes = Counter(cause for reasons in found.values() for cause in {(each.cause, each.path) for each in reasons})
    if not causes:
        port = next(
            port for node in nodes if (port := matching.find_taken_port(node_filter.pod_request, node)) is not None
        )
        return f"asks for port {port.number} of its node; of {_count(nodes, len(node_filter.table))}, none has it free"
    dominant, count = causes.most_common(1)[0]
    first = next(each for reasons in found.values() for each in reasons if (each.cause, each.path) == dominant)
    everywhere = count == 1 or first.cause in (Cause.CLAIM, Cause.IN_USE)  # which is so on whichever node
    others = "" if everywhere else f"; so it is on {count - 1} other node{'s' * (count > 2)}"
    return f"{first.message}{others}"


def _explain_full(node_filter: NodeFilter, positions: Sequence[int]) -> str:
    """Too little is free of a resource on each node that could take it, or of one on some and another on others."""
    pod_request, table = node_filter.pod_request, node_filter.table
    scarce = _find_scarcest(pod_request, positions, table.free)
    counted = _count(positions, len(table), "could take it")
    if scarce is None:
        needs = f"needs {_show_all(pod_request)} on one node; of {counted}, none has all of that free"
        return f"{needs}: {_describe_nearest(pod_request, table, positions, table.free)}"
    resource, at = scarce
    best, left, has = table.nodes[at], max(table.free[resource][at], 0), table.capacity[resource][at]
    if resource == PODS:
        full = f"{best.name} is full" if len(positions) == 1 else f"of {counted}, each is full"
        return f"needs room for a pod; {full} ({best.name} takes {show_amount(PODS, has)} pods)"
    asked, free = show_distinct(resource, pod_request.amounts[resource], left)
    needs, verb = f"needs {asked} {name_resource(resource, pod_request.amounts[resource])}", _is(resource, left)
    holder = _describe_holder(table, best, resource)
    if len(positions) == 1:
        only = "" if len(table) == 1 else ", the only node that could take it"
        return f"{needs}; {free} of {show_amount(resource, has)} {verb} free on {best.name}{only}{holder}"
    if not left:
        return f"{needs} on one node; of {counted}, none has any free{holder}"
    together = " together" if verb == "are" else ""
    return f"{needs} on one node; of {counted}, at most {free} {verb} free{together} ({best.name}){holder}"


def _explain_small(node_filter: NodeFilter, positions: Sequence[int]) -> str:
    """No node that matches is large enough, even an empty one."""
    pod_request, table = node_filter.pod_request, node_filter.table
    scarce, counted = _find_scarcest(pod_request, positions, table.capacity), _count(positions, len(table))
    if scarce is None:
        asks = f"asks for {_show_all(pod_request)}; of {counted}, none has all of that"
        return f"{asks}: {_describe_nearest(pod_request, table, positions, table.capacity)}"
    resource, at = scarce
    has = _at(table.capacity, resource, at)
    asked, there = show_distinct(resource, pod_request.amounts[resource], has)
    asks = (
        f"asks for {asked} {name_resource(resource, pod_request.amounts[resource])}"
        if resource != PODS
        else "needs room for a pod"
    )
    if not has:
        return f"{asks}; of {counted}, none has any"
    return f"{asks}; the largest of {counted} has {there} ({table.names[at]})"


def _explain_unwell(pod_request: PodRequest, nodes: Sequence[Node]) -> str:
    """Nodes that are cordoned, or that Kubernetes says are not well."""
    causes = Counter(
        "cordoned"
        if matching.is_cordoned(pod_request, taint_set_of(node))
        else f"tainted {_taints_of(pod_request, node)[0]}"
        for node in nodes
    )
    return f"{_describe_able(nodes)} nothing new now: {_describe_causes(causes)}"


def _explain_taints(pod_request: PodRequest, nodes: Sequence[Node]) -> str:
    """Nodes that are for others."""
    causes = Counter(f"tainted {taint}" for node in nodes for taint in _taints_of(pod_request, node))
    whose = "their taints" if len(nodes) > 1 else "its taints"
    return f"{_describe_able(nodes)} only what tolerates {whose}: {_describe_causes(causes)}"


def _explain_labels(node_filter: NodeFilter) -> str:
    """Labels that no node has, or that no node has together."""
    pod_request, nodes = node_filter.pod_request, node_filter.table.nodes
    if pod_request.node_name:
        return f"asks for node {pod_request.node_name}, which is not there or does not have the labels that it asks for"
    wanted = {
        f"{key}={value}": [node for node in nodes if node.labels.get(key) == value]
        for key, value in pod_request.node_selector.items()
    }
    if pod_request.node_terms is not None:
        suits = matching.compile_terms(pod_request.node_terms)
        wanted[matching.show_terms(pod_request.node_terms)] = [node for node in nodes if suits(node.labels, node.name)]
    missing = [label for label, having in wanted.items() if not having]
    counted = _count(nodes, len(nodes))
    if not missing:
        parts = [f"{len(having)} {'have' if len(having) > 1 else 'has'} {label}" for label, having in wanted.items()]
        return f"no node has {' and '.join(wanted)}: of {counted}, {listed(parts)}"
    found = Counter(f"tainted {taint}" for node in nodes for taint in _taints_of(pod_request, node))
    tainted = f", of which {_describe_causes(Counter(dict(found.most_common(1))))}" if found else ""
    return f"no node has {' nor '.join(missing)}: {counted}{tainted}"


def _find_scarcest(pod_request: PodRequest, positions: Sequence[int], columns: Columns) -> tuple[str, int] | None:
    """The resource of which no node has enough, that which is lacking most, and the node that has most of it."""
    short: list[tuple[float, str, int]] = []
    for resource, amount in pod_request.amounts.items():
        best = max(positions, key=columns[resource].__getitem__) if resource in columns else positions[0]
        if amount > (has := _at(columns, resource, best)):
            short.append((has / amount, resource, best))
    return min(short, key=lambda found: found[0])[1:] if short else None


def _describe_nearest(pod_request: PodRequest, table: NodeTable, positions: Sequence[int], columns: Columns) -> str:
    """The node that lacks the smallest part of what is asked for, and what it has of that."""

    def find_short(at: int) -> list[str]:
        return [name for name, amount in pod_request.amounts.items() if amount > _at(columns, name, at)]

    nearest = max(
        positions, key=lambda at: min(_at(columns, name, at) / pod_request.amounts[name] for name in find_short(at))
    )
    parts = []
    for resource in find_short(nearest):
        asked, there = show_distinct(resource, pod_request.amounts[resource], _at(columns, resource, nearest))
        parts.append(
            f"{there} of {asked} {name_resource(resource, pod_request.amounts[resource])}"
            if resource != PODS
            else "no room for a pod"
        )
    return f"{table.names[nearest]} comes nearest, with {listed(parts)}"


def _describe_holder(table: NodeTable, node: Node, resource: str) -> str:
    """The run that holds most of a resource on a node, where the reader may know it: the next to be waited for."""
    named = [(held.amounts.get(resource, 0), name) for held in node.holdings if (name := table.visible_name(held))]
    amount, name = max(named, default=(0, ""))
    return f"; next: {table.noun} {name} holds {show_amount(resource, amount)}" if amount else ""


def _describe_able(nodes: Sequence[Node]) -> str:
    names = listed([node.name for node in nodes], most=MOST_NAMED)
    return f"{_count(nodes, len(nodes))} that could take it ({names}) {'take' if len(nodes) > 1 else 'takes'}"


def _describe_causes(causes: Counter[str]) -> str:
    told = [f"{count} {'are' if count > 1 else 'is'} {cause}" for cause, count in causes.most_common()]
    return listed(told, most=MOST_NAMED)


def _taints_of(pod_request: PodRequest, node: Node) -> list[Taint]:
    """The taints that keep it off, each once; that of a cordoned node says no more than that it is."""
    cordoned = matching.is_cordoned(pod_request, taint_set_of(node))
    found = matching.find_taints(pod_request, taint_set_of(node))
    return [taint for taint in dict.fromkeys(found) if not (cordoned and taint.key == matching.CORDONED.key)]


def _count(those: Sized, total: int, which: str = "") -> str:
    """How many nodes are spoken of, and which: others do not match, where nothing else is said of them."""
    only = "" if len(those) == total else f" that {which or ('match' if len(those) > 1 else 'matches')}"
    return f"{len(those)} node{'s' * (len(those) > 1)}{only}"


def _show_all(pod_request: PodRequest) -> str:
    shown = [
        f"{show_amount(resource, amount)} {name_resource(resource, amount)}"
        for resource, amount in pod_request.amounts.items()
        if resource != PODS and amount
    ]
    return listed(shown) if shown else ""


def _is(resource: str, amount: int) -> str:
    return "is" if resource in SIZES or amount == NANOS else "are"


def _at(columns: Columns, resource: str, at: int) -> int:
    return max(columns[resource][at], 0) if resource in columns else 0

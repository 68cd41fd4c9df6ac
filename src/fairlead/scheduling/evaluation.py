"""Verdicts on whether a run fits on a cluster's nodes now, later or never, with reasons and a summary sentence."""

from collections import Counter
from collections.abc import Iterator, Sequence, Sized
from dataclasses import replace
from heapq import nsmallest
from itertools import chain, islice

from fairlead.model.nodes import Node, NodeTable, PodRequest, ScheduledPod, Taint, taint_set_of
from fairlead.model.plans import Fit, Violation
from fairlead.model.quantities import NANOS
from fairlead.scheduling import selectors
from fairlead.scheduling.filters import Columns, NodeFilter
from fairlead.scheduling.pod_requests import PODS
from fairlead.scheduling.reasons import (
    Cause,
    Reason,
    describe_amount,
    describe_pair,
    format_list,
    name_resource,
    resource_path,
)

MAX_NAMED_NODES = 4

MAX_NAMED = 3
MAX_NODES = 20  # formatting reasons for 5,000 nodes takes longer than evaluating them
NOW, LATER, NEVER = "now", "later", "never"
HINTS = {
    Cause.AMOUNT: "remove this request: no node has this resource",
    Cause.LABELS: "remove this requirement, or change it to match an existing node",
    Cause.TAINT: "add a toleration",
    Cause.POD_AFFINITY: "remove this affinity, or use a topology key that nodes have",
    Cause.VOLUME: "mount a volume that a node can access",
    Cause.ZONE: "mount a volume that a node can access",
    Cause.SHARE: "request less GPU memory, or a whole GPU",
}
OTHERWISE = "ask an administrator for a suitable node"


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
        node
        for node in nodes
        if all(map(selectors.is_temporary, selectors.find_taints(pod_request, taint_set_of(node))))
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
    positions, table = node_filter.with_free_resources, node_filter.table
    groups = node_filter.group_by_cause(positions)
    # The nodes have room and no check excludes them, so host ports are the only possible reason left.
    if not groups:
        ports = (selectors.find_taken_port(node_filter.pod_request, table.nodes[at]) for at in positions)
        port = next(port for port in ports if port is not None)
        return f"needs host port {port.number}, which is in use on {_count(positions, len(table))}"
    dominant, excluded = max(groups.items(), key=lambda group: len(group[1]))
    count, node = len(excluded), table.nodes[min(excluded)]
    reasons = (reason for check in node_filter.checks for reason in check(node))
    first = next(reason for reason in reasons if (reason.cause, reason.path) == dominant)
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
        if selectors.is_cordoned(pod_request, taint_set_of(node))
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
        matching = selectors.match_terms(pod_request.node_terms, node_filter.table, range(len(nodes)))
        required[selectors.show_terms(pod_request.node_terms)] = [nodes[at] for at in matching]
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
    names = format_list([node.name for node in nodes], most=MAX_NAMED_NODES)
    return f"{len(nodes)} suitable node{'s' * (len(nodes) > 1)} ({names})"


def _describe_causes(causes: Counter[str]) -> str:
    parts = [f"{count} {'are' if count > 1 else 'is'} {cause}" for cause, count in causes.most_common()]
    return format_list(parts, most=MAX_NAMED_NODES)


def _taints_of(pod_request: PodRequest, node: Node) -> list[Taint]:
    """The distinct taints that exclude the pod. For a cordoned node, the taint that marks it cordoned is left out."""
    cordoned = selectors.is_cordoned(pod_request, taint_set_of(node))
    taints = selectors.find_taints(pod_request, taint_set_of(node))
    return [taint for taint in dict.fromkeys(taints) if not (cordoned and taint.key == selectors.CORDONED.key)]


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


def evaluate(pod_request: PodRequest, table: NodeTable, *, autoscaled: bool = False) -> Fit:
    """The verdict for all nodes, with node counts per verdict and all reasons for the closest nodes.

    `autoscaled`: nodes may be added, so the verdict cannot be `never`.
    """
    node_filter = NodeFilter(pod_request, table)
    verdict = decide_verdict(node_filter, autoscaled=autoscaled)
    # Each feasible node is also feasible when empty, so the counts add up to the number of nodes.
    counts = {
        NOW: len(node_filter.feasible),
        LATER: len(node_filter.feasible_when_empty) - len(node_filter.feasible),
        NEVER: len(table) - len(node_filter.feasible_when_empty),
    }
    reasons = {node.name: list_reasons(node_filter, node) for node in _find_nearest(node_filter)}
    nodes = tuple({"name": name, "fits": not messages, "reasons": messages} for name, messages in reasons.items())
    return Fit(verdict, nodes, _summarize(node_filter, reasons) if verdict != NOW else (), counts=counts)


def decide_verdict(node_filter: NodeFilter, *, autoscaled: bool = False) -> str:
    """The verdict without reasons."""
    count = node_filter.pod_request.count
    if fits_now(node_filter):
        return NOW
    if autoscaled or (
        node_filter.feasible_when_empty and (count == 1 or node_filter.count_fitting_when_empty(count) >= count)
    ):
        return LATER
    return NEVER


def fits_now(node_filter: NodeFilter) -> bool:
    """Whether all pods of a run fit now."""
    count = node_filter.pod_request.count
    return bool(node_filter.feasible) and (count == 1 or node_filter.count_fitting(count) >= count)


def find_reasons(node_filter: NodeFilter, node: Node) -> Iterator[Reason]:
    """All reasons why a node cannot run the pod now."""
    pod_request = node_filter.pod_request
    yield from selectors.find_mismatches(pod_request, node)
    for resource, amount in pod_request.amounts.items():
        if amount > max(node.free(resource), 0):  # a request of 0 fits an overcommitted node
            message, lasts = (
                _explain(resource, amount, node, node_filter.table),
                amount > node.capacity.get(resource, 0),
            )
            yield Reason(Cause.AMOUNT, resource_path(resource), message, resource, lasts)
    for check in node_filter.checks:
        yield from check(node)


def list_reasons(node_filter: NodeFilter, node: Node) -> list[str]:
    """The messages of all reasons why a node cannot run the pod now."""
    reasons = list(find_reasons(node_filter, node))
    if any(reason.cause is Cause.CORDONED for reason in reasons):
        # A cordoned node also has a taint that says the same thing.
        duplicate = f"taint {selectors.CORDONED},"
        reasons = [reason for reason in reasons if duplicate not in reason.message]
    return [reason.message for reason in reasons]


def explain_never_fits(pod_request: PodRequest, table: NodeTable) -> Iterator[Violation]:
    """Why a pod would not fit on the closest node, even if that node were empty."""
    node_filter = NodeFilter(pod_request, table)
    # The node with the fewest lasting reasons shows the user what to change.
    nearest = min((_find_lasting(node_filter, node) for node in _find_nearest(node_filter)), key=len, default=[])
    # Each pod would fit an empty node, but not all of them together.
    if not nearest and len(table):
        fitting = node_filter.count_fitting_when_empty(pod_request.count)
        message = f"has {pod_request.count} pods; only {fitting} would fit on empty nodes"
        nearest = [Reason(Cause.AMOUNT, "replicas", message, PODS)]
    for reason in nearest or [Reason(Cause.LABELS, "", "the cluster has no node that could run the pod")]:
        yield Violation(reason.path, "never_fits", reason.message, _hint(node_filter, reason))


def _hint(node_filter: NodeFilter, reason: Reason) -> str:
    """How to resolve a lasting reason. For an amount, the hint includes the largest request that fits."""
    resource = reason.resource if reason.cause is Cause.AMOUNT else ""
    column = node_filter.table.capacity.get(resource)
    if resource == PODS:
        return "request fewer replicas" if reason.path == "replicas" else OTHERWISE
    if column is None:
        return HINTS.get(reason.cause, OTHERWISE)
    # Only nodes that meet all other requirements count, because the run cannot use larger amounts on other nodes.
    rest = NodeFilter(
        replace(node_filter.pod_request, amounts={**node_filter.pod_request.amounts, resource: 0}), node_filter.table
    )
    most = max((column[at] for at in rest.feasible_when_empty or node_filter.label_matches), default=0)
    if not most:
        return HINTS[Cause.AMOUNT]
    return f"request {describe_amount(resource, most)} {name_resource(resource, most)} or less"


def _find_nearest(node_filter: NodeFilter) -> list[Node]:
    """Feasible nodes, then nodes that would be feasible when empty, then the others, by name; at most MAX_NODES."""
    names, nearest = node_filter.table.names, dict[int, None]()
    for positions in (node_filter.feasible, node_filter.feasible_when_empty, range(len(names))):
        if len(nearest) < MAX_NODES:
            # Up to len(nearest) of these may be in the list already.
            nearest |= dict.fromkeys(nsmallest(MAX_NODES + len(nearest), positions, key=names.__getitem__))
    return [node_filter.table.nodes[at] for at in islice(nearest, MAX_NODES)]


def _find_lasting(node_filter: NodeFilter, node: Node) -> list[Reason]:
    return [reason for reason in find_reasons(node_filter, node) if reason.lasts]


def _summarize(node_filter: NodeFilter, reasons: dict[str, list[str]]) -> tuple[str, ...]:
    """All reasons for a single node; one sentence for several nodes."""
    if len(node_filter.table) == 1 and node_filter.pod_request.count == 1:
        return tuple(chain(*reasons.values()))
    return (explain_no_fit(node_filter),)


def _explain(resource: str, amount: int, node: Node, table: NodeTable) -> str:
    name, total, free = name_resource(resource, amount), node.capacity.get(resource, 0), max(node.free(resource), 0)
    requested, has = describe_pair(resource, amount, total)
    if amount > total:
        return f"needs {requested} {name}; {node.name} has {f'{has} in total' if total else 'none'}"
    users = [pod for pod in node.pods if pod.amounts.get(resource)]
    if resource == PODS:
        noun = "runs" if all(pod.run_id for pod in users) else "pods"
        return f"{node.name} is at its limit of {describe_amount(resource, total)} {noun}: {_name_users(users, table)}"
    requested, left = describe_pair(resource, amount, free)
    available = f"{left} of {describe_amount(resource, total)} free on {node.name}"
    return f"needs {requested} {name}; {available}. In use by {_name_users(users, table)}"


def _name_users(users: Sequence[ScheduledPod], table: NodeTable) -> str:
    """The runs or pods that use a resource, by name if the reader may see them."""
    names = [name for pod in users if (name := table.visible_name(pod)) is not None][:MAX_NAMED]
    more = len(users) - len(names)
    noun = "run" if all(pod.run_id for pod in users) else "pod"
    rest = [f"{more} more" if names else f"{more} {noun}{'s' * (more > 1)}"] if more else []
    return " and ".join([*([", ".join(names)] if names else []), *rest])

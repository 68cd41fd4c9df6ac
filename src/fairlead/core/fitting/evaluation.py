"""Verdicts on whether a run fits on a cluster's nodes now, later or never, with reasons."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from heapq import nsmallest
from itertools import chain, islice

from fairlead.core.fitting import matching, wait_reasons
from fairlead.core.fitting.filtering import NodeFilter
from fairlead.core.fitting.formatting import describe_amount, describe_pair, name_resource, path_of
from fairlead.core.fitting.node_tables import NodeTable
from fairlead.core.fitting.pod_requests import PodRequest
from fairlead.core.fitting.pod_resources import PODS
from fairlead.core.fitting.reasons import Cause, Reason
from fairlead.model.nodes import Node, ScheduledPod
from fairlead.model.plans import Fit, Violation

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
    yield from matching.find_mismatches(pod_request, node)
    for resource, amount in pod_request.amounts.items():
        if amount > max(node.free(resource), 0):  # a request of 0 fits an overcommitted node
            message, lasts = (
                _explain(resource, amount, node, node_filter.table),
                amount > node.capacity.get(resource, 0),
            )
            yield Reason(Cause.AMOUNT, path_of(resource), message, resource, lasts)
    for check in node_filter.checks:
        yield from check(node)


def list_reasons(node_filter: NodeFilter, node: Node) -> list[str]:
    """The messages of all reasons why a node cannot run the pod now."""
    reasons = list(find_reasons(node_filter, node))
    if any(reason.cause is Cause.CORDONED for reason in reasons):
        # A cordoned node also has a taint that says the same thing.
        duplicate = f"taint {matching.CORDONED},"
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
    return (wait_reasons.explain_no_fit(node_filter),)


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

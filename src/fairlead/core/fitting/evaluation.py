"""Whether a run would run now, later or never on some nodes, and why not."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from heapq import nsmallest
from itertools import chain, islice

from fairlead.core.fitting import matching, wait_reasons
from fairlead.core.fitting.filtering import NodeFilter
from fairlead.core.fitting.formatting import name_resource, path_of, show_amount, show_distinct
from fairlead.core.fitting.node_tables import NodeTable
from fairlead.core.fitting.pod_requests import PodRequest
from fairlead.core.fitting.pod_resources import PODS
from fairlead.core.fitting.reasons import Cause, Reason
from fairlead.model.nodes import Holding, Node
from fairlead.model.plans import Fit, Violation

MOST_NAMED = 3
MOST_NODES = 20
NOW, LATER, NEVER = "now", "later", "never"
HINTS = {
    Cause.AMOUNT: "leave it out: no node has any",
    Cause.LABELS: "leave it out, or ask for what a node has",
    Cause.TAINT: "tolerate it",
    Cause.NEAR: "leave it out, or ask for what is there",
    Cause.VOLUME: "mount one that a node reaches",
    Cause.ZONE: "mount one that a node reaches",
    Cause.SHARE: "ask for less of a GPU, or for a whole one",
}
OTHERWISE = "ask an administrator for a node that takes it"


def evaluate(pod_request: PodRequest, table: NodeTable, *, autoscaled: bool = False) -> Fit:
    """The verdict over all nodes, how many of each there are, and of the nearest ones every reason why not now.

    Autoscaled: other nodes may appear.
    """
    node_filter = NodeFilter(pod_request, table)
    verdict = decide_verdict(node_filter, autoscaled=autoscaled)
    counts = {
        NOW: len(node_filter.feasible),
        LATER: len(node_filter.feasible_when_empty) - len(node_filter.feasible),
        NEVER: len(table) - len(node_filter.feasible_when_empty),
    }
    reasons = {node.name: list_reasons(node_filter, node) for node in _find_nearest(node_filter)}
    seen = tuple({"name": name, "fits": not found, "reasons": found} for name, found in reasons.items())
    return Fit(verdict, seen, _sum_up(node_filter, reasons) if verdict != NOW else (), counts=counts)


def decide_verdict(node_filter: NodeFilter, *, autoscaled: bool = False) -> str:
    """The verdict alone."""
    count = node_filter.pod_request.count
    if fits_now(node_filter):
        return NOW
    if autoscaled or (
        node_filter.feasible_when_empty and (count == 1 or node_filter.count_fitting_when_empty(count) >= count)
    ):
        return LATER
    return NEVER


def fits_now(node_filter: NodeFilter) -> bool:
    """Whether there is room for all of its pods now."""
    count = node_filter.pod_request.count
    return bool(node_filter.feasible) and (count == 1 or node_filter.count_fitting(count) >= count)


def find_reasons(node_filter: NodeFilter, node: Node) -> Iterator[Reason]:
    """Every reason why the node does not take it now, with numbers."""
    pod_request = node_filter.pod_request
    yield from matching.find_mismatches(pod_request, node)
    for resource, amount in pod_request.amounts.items():
        if amount > max(node.free(resource), 0):  # who asks for none is not kept off by what is overdrawn
            message, lasts = (
                _explain(resource, amount, node, node_filter.table),
                amount > node.capacity.get(resource, 0),
            )
            yield Reason(Cause.AMOUNT, path_of(resource), message, resource, lasts)
    for check in node_filter.checks:
        yield from check(node)


def list_reasons(node_filter: NodeFilter, node: Node) -> list[str]:
    """Every reason in words. The taint of a cordoned node says no more than that it is cordoned."""
    found = list(find_reasons(node_filter, node))
    if any(reason.cause is Cause.CORDONED for reason in found):
        same = f"tainted {matching.CORDONED},"
        found = [reason for reason in found if same not in reason.message]
    return [reason.message for reason in found]


def explain_never_fits(pod_request: PodRequest, table: NodeTable) -> Iterator[Violation]:
    """Why no node could take it, even an empty one: told of the node that comes nearest."""
    node_filter = NodeFilter(pod_request, table)
    nearest = min((_find_lasting(node_filter, node) for node in _find_nearest(node_filter)), key=len, default=[])
    if not nearest and len(table):
        fitting = node_filter.count_fitting_when_empty(pod_request.count)
        message = f"has {pod_request.count} pods; if nothing else ran, {fitting} of them would fit"
        nearest = [Reason(Cause.AMOUNT, "replicas", message, PODS)]
    for reason in nearest or [Reason(Cause.LABELS, "", "there is no node on which it could run")]:
        yield Violation(reason.path, "never_fits", reason.message, _hint(node_filter, reason))


def _hint(node_filter: NodeFilter, reason: Reason) -> str:
    """What to do about a reason that lasts: the most that could be asked for, where it is an amount."""
    resource = reason.resource if reason.cause is Cause.AMOUNT else ""
    column = node_filter.table.capacity.get(resource)
    if resource == PODS:
        return "ask for fewer replicas" if reason.path == "replicas" else OTHERWISE
    if column is None:
        return HINTS.get(reason.cause, OTHERWISE)
    rest = NodeFilter(
        replace(node_filter.pod_request, amounts={**node_filter.pod_request.amounts, resource: 0}), node_filter.table
    )
    most = max((column[at] for at in rest.feasible_when_empty or node_filter.label_matches), default=0)
    if not most:
        return HINTS[Cause.AMOUNT]
    return f"ask for {show_amount(resource, most)} {name_resource(resource, most)} or less"


def _find_nearest(node_filter: NodeFilter) -> list[Node]:
    """Nodes that take it, then those that could, then the others, by name; and not too many of them."""
    names, found = node_filter.table.names, dict[int, None]()
    for positions in (node_filter.feasible, node_filter.feasible_when_empty, range(len(names))):
        if len(found) < MOST_NODES:
            found |= dict.fromkeys(nsmallest(MOST_NODES + len(found), positions, key=names.__getitem__))
    return [node_filter.table.nodes[at] for at in islice(found, MOST_NODES)]


def _find_lasting(node_filter: NodeFilter, node: Node) -> list[Reason]:
    return [reason for reason in find_reasons(node_filter, node) if reason.lasts]


def _sum_up(node_filter: NodeFilter, reasons: dict[str, list[str]]) -> tuple[str, ...]:
    """Every reason of the only node; of many nodes, what it comes down to."""
    if len(node_filter.table) == 1 and node_filter.pod_request.count == 1:
        return tuple(chain(*reasons.values()))
    return (wait_reasons.explain_no_fit(node_filter),)


def _explain(resource: str, amount: int, node: Node, table: NodeTable) -> str:
    word, has, free = name_resource(resource, amount), node.capacity.get(resource, 0), max(node.free(resource), 0)
    asked, there = show_distinct(resource, amount, has)
    if amount > has:
        has_in_all = f"{there} in all" if has else "none"
        return f"asks for {asked} {word}; {node.name} has {has_in_all}"
    holders = [holding for holding in node.holdings if holding.amounts.get(resource)]
    named = _name_holders(holders, table)
    if resource == PODS:
        noun = "runs" if all(holding.run_id for holding in holders) else "pods"
        return f"{node.name} takes {show_amount(resource, has)} {noun} at once, and no more; it has {named}"
    asked, left = show_distinct(resource, amount, free)
    holding = f"{named} hold{'s' * (len(holders) == 1)} the rest"
    return f"asks for {asked} {word}; {left} of {show_amount(resource, has)} are free on {node.name}: {holding}"


def _name_holders(holders: Sequence[Holding], table: NodeTable) -> str:
    """Who holds something, as far as the reader may know."""
    named = [f"{table.noun} {name}" for holding in holders if (name := table.visible_name(holding)) is not None][
        :MOST_NAMED
    ]
    more = len(holders) - len(named)
    noun = "run" if all(holding.run_id for holding in holders) else "pod"
    rest = [f"{more} other{'s' * (more > 1)}" if named else f"{more} {noun}{'s' * (more > 1)}"] if more else []
    return " and ".join([*([", ".join(named)] if named else []), *rest])

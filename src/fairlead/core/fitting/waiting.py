"""Why a pod fits on none of many nodes now, in one sentence: the cause that stands nearest to its way out."""

from collections import Counter
from collections.abc import Callable, Sequence

from fairlead.core.fitting import matching
from fairlead.core.fitting.asking import PODS, Ask
from fairlead.core.fitting.wording import SIZES, name_resource, show_amount, tell_apart
from fairlead.core.telling.facts import listed
from fairlead.model.nodes import Node
from fairlead.model.quantities import NANOS

MOST_NAMED = 4

Has = Callable[[Node, str], int]  # what a node has of a resource: in all, or free


def explain_wait(ask: Ask, nodes: Sequence[Node]) -> str:
    """Why no node takes it now, with numbers; empty where one does.

    Told of the nodes that lack the least: those that are full, else those that are not well, else those whose taints
    keep it off, else those that are too small, else those without its labels.
    """
    suited = [node for node in nodes if matching.suits_labels(ask, node)]
    if not suited:
        return _explain_labels(ask, nodes) if nodes else "there is no node"
    large = [node for node in suited if not _find_short(ask, node, _in_all)]
    ready = [node for node in suited if _is_open(ask, node)]
    if any(not _find_short(ask, node, _free) for node in ready):
        return ""
    if any(_is_open(ask, node) for node in large):
        return _explain_full(ask, ready, len(nodes))
    if unwell := [node for node in large if all(map(matching.is_passing, matching.find_taints(ask, node)))]:
        return _explain_unwell(ask, unwell)
    return _explain_taints(ask, large) if large else _explain_small(ask, suited, len(nodes))


def _explain_full(ask: Ask, nodes: Sequence[Node], total: int) -> str:
    """Too little is free of a resource on each node that matches, or of one on some and of another on others."""
    resource, best = _find_scarcest(ask, nodes, _free)
    if resource is None:
        needs = f"needs {_show_all(ask)} on one node; of {_count(nodes, total)}, none has all of that free"
        return f"{needs}: {_tell_nearest(ask, nodes, _free)}"
    if resource == PODS:
        room = show_amount(PODS, _in_all(best, PODS))
        full = f"{best.name} is full" if len(nodes) == 1 else f"of {_count(nodes, total)}, each is full"
        return f"needs room for a pod; {full} ({best.name} takes {room} pods)"
    asked, free = tell_apart(resource, ask.amounts[resource], _free(best, resource))
    needs = f"needs {asked} {name_resource(resource)}"
    if len(nodes) == 1:
        only = "" if total == 1 else ", the only node that matches"
        is_free = (
            f"{free} of {show_amount(resource, _in_all(best, resource))} {_is(resource, _free(best, resource))} free"
        )
        return f"{needs}; {is_free} on {best.name}{only}"
    if not _free(best, resource):
        return f"{needs} on one node; of {_count(nodes, total)}, none has any free"
    verb = _is(resource, _free(best, resource))
    together = " together" if verb == "are" else ""
    return f"{needs} on one node; of {_count(nodes, total)}, at most {free} {verb} free{together} ({best.name})"


def _explain_small(ask: Ask, nodes: Sequence[Node], total: int) -> str:
    """No node that matches is large enough, even an empty one."""
    resource, best = _find_scarcest(ask, nodes, _in_all)
    if resource is None:
        asks = f"asks for {_show_all(ask)}; of {_count(nodes, total)}, none has all of that"
        return f"{asks}: {_tell_nearest(ask, nodes, _in_all)}"
    asked, there = tell_apart(resource, ask.amounts[resource], _in_all(best, resource))
    asks = f"asks for {asked} {name_resource(resource)}" if resource != PODS else "needs room for a pod"
    if not _in_all(best, resource):
        return f"{asks}; of {_count(nodes, total)}, none has any"
    return f"{asks}; the largest of {_count(nodes, total)} has {there} ({best.name})"


def _explain_unwell(ask: Ask, nodes: Sequence[Node]) -> str:
    """Nodes that are cordoned, or that Kubernetes says are not well."""
    causes = Counter(
        "cordoned" if matching.is_cordoned(ask, node) else f"tainted {matching.find_taints(ask, node)[0]}"
        for node in nodes
    )
    return f"{_tell_able(nodes)} nothing new now: {_tell_causes(causes)}"


def _explain_taints(ask: Ask, nodes: Sequence[Node]) -> str:
    """Nodes that are for others."""
    causes = Counter(f"tainted {taint}" for node in nodes for taint in dict.fromkeys(matching.find_taints(ask, node)))
    whose = "their taints" if len(nodes) > 1 else "its taints"
    return f"{_tell_able(nodes)} only what tolerates {whose}: {_tell_causes(causes)}"


def _explain_labels(ask: Ask, nodes: Sequence[Node]) -> str:
    """Labels that no node has, or that no node has together."""
    wanted = {
        f"{key}={value}": [node for node in nodes if node.labels.get(key) == value]
        for key, value in ask.node_selector.items()
    }
    if ask.node_terms is not None:
        wanted[matching.show_terms(ask.node_terms)] = [node for node in nodes if matching.suits_terms(ask, node)]
    missing = [label for label, having in wanted.items() if not having]
    if not missing:
        parts = [f"{len(having)} {'have' if len(having) > 1 else 'has'} {label}" for label, having in wanted.items()]
        return f"no node has {' and '.join(wanted)}: of {_count(nodes, len(nodes))}, {listed(parts)}"
    found = Counter(f"tainted {taint}" for node in nodes for taint in dict.fromkeys(matching.find_taints(ask, node)))
    tainted = f", of which {_tell_causes(Counter(dict(found.most_common(1))))}" if found else ""
    return f"no node has {' nor '.join(missing)}: {_count(nodes, len(nodes))}{tainted}"


def _is_open(ask: Ask, node: Node) -> bool:
    """Whether it may be on the node at all, as that is now."""
    return not matching.is_cordoned(ask, node) and not matching.find_taints(ask, node)


def _find_short(ask: Ask, node: Node, has: Has) -> list[str]:
    return [resource for resource, amount in ask.amounts.items() if amount > has(node, resource)]


def _find_scarcest(ask: Ask, nodes: Sequence[Node], has: Has) -> tuple[str | None, Node]:
    """The resource of which no node has enough, that which is lacking most, and the node that has most of it."""
    best = {resource: max(nodes, key=lambda node: has(node, resource)) for resource in ask.amounts}
    short = [resource for resource, node in best.items() if ask.amounts[resource] > has(node, resource)]
    if not short:
        return None, nodes[0]
    scarcest = min(short, key=lambda resource: has(best[resource], resource) / ask.amounts[resource])
    return scarcest, best[scarcest]


def _tell_nearest(ask: Ask, nodes: Sequence[Node], has: Has) -> str:
    """The node that lacks the smallest part of what is asked for, and what it has of that."""
    nearest = max(
        nodes, key=lambda node: min(has(node, name) / ask.amounts[name] for name in _find_short(ask, node, has))
    )
    parts = []
    for resource in _find_short(ask, nearest, has):
        asked, there = tell_apart(resource, ask.amounts[resource], has(nearest, resource))
        parts.append(f"{there} of {asked} {name_resource(resource)}" if resource != PODS else "no room for a pod")
    return f"{nearest.name} comes nearest, with {listed(parts)}"


def _tell_able(nodes: Sequence[Node]) -> str:
    names = listed([node.name for node in nodes], most=MOST_NAMED)
    return f"{_count(nodes, len(nodes))} that could take it ({names}) {'take' if len(nodes) > 1 else 'takes'}"


def _tell_causes(causes: Counter[str]) -> str:
    told = [f"{count} {'are' if count > 1 else 'is'} {cause}" for cause, count in causes.most_common()]
    return listed(told, most=MOST_NAMED)


def _count(nodes: Sequence[Node], total: int) -> str:
    """How many nodes are spoken of, and that others do not match."""
    matching_only = "" if len(nodes) == total else " that match" if len(nodes) > 1 else " that matches"
    return f"{len(nodes)} node{'s' * (len(nodes) > 1)}{matching_only}"


def _show_all(ask: Ask) -> str:
    amounts = [(resource, amount) for resource, amount in ask.amounts.items() if resource != PODS and amount]
    return listed([f"{show_amount(resource, amount)} {name_resource(resource)}" for resource, amount in amounts])


def _is(resource: str, amount: int) -> str:
    return "is" if resource in SIZES or amount == NANOS else "are"


def _in_all(node: Node, resource: str) -> int:
    return node.capacity.get(resource, 0)


def _free(node: Node, resource: str) -> int:
    return max(node.free(resource), 0)

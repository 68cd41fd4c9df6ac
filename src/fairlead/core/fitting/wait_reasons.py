"""Why a pod fits on none of many nodes now, in one sentence: the cause that stands nearest to its suggestion."""

from collections import Counter
from collections.abc import Sequence, Sized

from fairlead.core.fitting import matching
from fairlead.core.fitting.pod_requests import Ask
from fairlead.core.fitting.pod_resources import PODS
from fairlead.core.fitting.node_tables import Grid, kind_of
from fairlead.core.fitting.reasons import Cause
from fairlead.core.fitting.filtering import Columns, Sieve
from fairlead.core.fitting.formatting import SIZES, name_resource, show_amount, tell_apart
from fairlead.core.telling.facts import listed
from fairlead.model.nodes import Node, Taint
from fairlead.model.quantities import NANOS

MOST_NAMED = 4


def explain_wait(sieve: Sieve) -> str:
    """Why no node takes it now, with numbers; empty where one does.

    Told of the nodes that lack the least: those that others keep it off, else those that are full, else those that
    are not well, else those whose taints keep it off, else those that are too small, else those without its labels.
    """
    ask, grid = sieve.ask, sieve.grid
    if sieve.now:
        return _explain_several(sieve) if ask.count > 1 else ""
    if not sieve.suited:
        return _explain_labels(sieve) if len(grid) else "there is no node"
    if sieve.roomy:
        return _explain_kept_off(sieve)
    large = set(sieve.large)
    if full := [at for at in sieve.open if at in large]:
        return _explain_full(sieve, full)
    nodes = [grid.nodes[at] for at in sieve.large]
    if unwell := [node for node in nodes if all(map(matching.is_passing, matching.find_taints(ask, kind_of(node))))]:
        return _explain_unwell(ask, unwell)
    return _explain_taints(ask, nodes) if nodes else _explain_small(sieve, sieve.suited)


def _explain_several(sieve: Sieve) -> str:
    """Some of its pods fit now, and not all."""
    ask = sieve.ask
    there = sieve.count_now(ask.count)
    if there >= ask.count:
        return ""
    each = f" of {_show_all(ask)} each" if _show_all(ask) else ""
    return f"has {ask.count} pods{each}; there is room for {there} now"


def _explain_kept_off(sieve: Sieve) -> str:
    """There is room, and something other than room keeps it off: what does so on most nodes."""
    nodes = [sieve.grid.nodes[at] for at in sieve.roomy]
    found = {node.name: [reason for check in sieve.checks for reason in check(node)] for node in nodes}
    causes = Counter(cause for reasons in found.values() for cause in {(each.cause, each.path) for each in reasons})
    if not causes:
        port = next(port for node in nodes if (port := matching.find_taken_port(sieve.ask, node)) is not None)
        return f"asks for port {port.number} of its node; of {_count(nodes, len(sieve.grid))}, none has it free"
    dominant, count = causes.most_common(1)[0]
    first = next(each for reasons in found.values() for each in reasons if (each.cause, each.path) == dominant)
    everywhere = count == 1 or first.cause in (Cause.CLAIM, Cause.IN_USE)  # which is so on whichever node
    others = "" if everywhere else f"; so it is on {count - 1} other node{'s' * (count > 2)}"
    return f"{first.message}{others}"


def _explain_full(sieve: Sieve, positions: Sequence[int]) -> str:
    """Too little is free of a resource on each node that could take it, or of one on some and another on others."""
    ask, grid = sieve.ask, sieve.grid
    scarce = _find_scarcest(ask, positions, grid.free)
    counted = _count(positions, len(grid), "could take it")
    if scarce is None:
        needs = f"needs {_show_all(ask)} on one node; of {counted}, none has all of that free"
        return f"{needs}: {_tell_nearest(ask, grid, positions, grid.free)}"
    resource, at = scarce
    best, left, has = grid.nodes[at], max(grid.free[resource][at], 0), grid.capacity[resource][at]
    if resource == PODS:
        full = f"{best.name} is full" if len(positions) == 1 else f"of {counted}, each is full"
        return f"needs room for a pod; {full} ({best.name} takes {show_amount(PODS, has)} pods)"
    asked, free = tell_apart(resource, ask.amounts[resource], left)
    needs, verb = f"needs {asked} {name_resource(resource, ask.amounts[resource])}", _is(resource, left)
    holder = _tell_holder(grid, best, resource)
    if len(positions) == 1:
        only = "" if len(grid) == 1 else ", the only node that could take it"
        return f"{needs}; {free} of {show_amount(resource, has)} {verb} free on {best.name}{only}{holder}"
    if not left:
        return f"{needs} on one node; of {counted}, none has any free{holder}"
    together = " together" if verb == "are" else ""
    return f"{needs} on one node; of {counted}, at most {free} {verb} free{together} ({best.name}){holder}"


def _explain_small(sieve: Sieve, positions: Sequence[int]) -> str:
    """No node that matches is large enough, even an empty one."""
    ask, grid = sieve.ask, sieve.grid
    scarce, counted = _find_scarcest(ask, positions, grid.capacity), _count(positions, len(grid))
    if scarce is None:
        asks = f"asks for {_show_all(ask)}; of {counted}, none has all of that"
        return f"{asks}: {_tell_nearest(ask, grid, positions, grid.capacity)}"
    resource, at = scarce
    has = _at(grid.capacity, resource, at)
    asked, there = tell_apart(resource, ask.amounts[resource], has)
    asks = (
        f"asks for {asked} {name_resource(resource, ask.amounts[resource])}"
        if resource != PODS
        else "needs room for a pod"
    )
    if not has:
        return f"{asks}; of {counted}, none has any"
    return f"{asks}; the largest of {counted} has {there} ({grid.names[at]})"


def _explain_unwell(ask: Ask, nodes: Sequence[Node]) -> str:
    """Nodes that are cordoned, or that Kubernetes says are not well."""
    causes = Counter(
        "cordoned" if matching.is_cordoned(ask, kind_of(node)) else f"tainted {_taints_of(ask, node)[0]}"
        for node in nodes
    )
    return f"{_tell_able(nodes)} nothing new now: {_tell_causes(causes)}"


def _explain_taints(ask: Ask, nodes: Sequence[Node]) -> str:
    """Nodes that are for others."""
    causes = Counter(f"tainted {taint}" for node in nodes for taint in _taints_of(ask, node))
    whose = "their taints" if len(nodes) > 1 else "its taints"
    return f"{_tell_able(nodes)} only what tolerates {whose}: {_tell_causes(causes)}"


def _explain_labels(sieve: Sieve) -> str:
    """Labels that no node has, or that no node has together."""
    ask, nodes = sieve.ask, sieve.grid.nodes
    if ask.node_name:
        return f"asks for node {ask.node_name}, which is not there or does not have the labels that it asks for"
    wanted = {
        f"{key}={value}": [node for node in nodes if node.labels.get(key) == value]
        for key, value in ask.node_selector.items()
    }
    if ask.node_terms is not None:
        suits = matching.compile_terms(ask.node_terms)
        wanted[matching.show_terms(ask.node_terms)] = [node for node in nodes if suits(node.labels, node.name)]
    missing = [label for label, having in wanted.items() if not having]
    counted = _count(nodes, len(nodes))
    if not missing:
        parts = [f"{len(having)} {'have' if len(having) > 1 else 'has'} {label}" for label, having in wanted.items()]
        return f"no node has {' and '.join(wanted)}: of {counted}, {listed(parts)}"
    found = Counter(f"tainted {taint}" for node in nodes for taint in _taints_of(ask, node))
    tainted = f", of which {_tell_causes(Counter(dict(found.most_common(1))))}" if found else ""
    return f"no node has {' nor '.join(missing)}: {counted}{tainted}"


def _find_scarcest(ask: Ask, positions: Sequence[int], columns: Columns) -> tuple[str, int] | None:
    """The resource of which no node has enough, that which is lacking most, and the node that has most of it."""
    short: list[tuple[float, str, int]] = []
    for resource, amount in ask.amounts.items():
        best = max(positions, key=columns[resource].__getitem__) if resource in columns else positions[0]
        if amount > (has := _at(columns, resource, best)):
            short.append((has / amount, resource, best))
    return min(short, key=lambda found: found[0])[1:] if short else None


def _tell_nearest(ask: Ask, grid: Grid, positions: Sequence[int], columns: Columns) -> str:
    """The node that lacks the smallest part of what is asked for, and what it has of that."""

    def find_short(at: int) -> list[str]:
        return [name for name, amount in ask.amounts.items() if amount > _at(columns, name, at)]

    nearest = max(positions, key=lambda at: min(_at(columns, name, at) / ask.amounts[name] for name in find_short(at)))
    parts = []
    for resource in find_short(nearest):
        asked, there = tell_apart(resource, ask.amounts[resource], _at(columns, resource, nearest))
        parts.append(
            f"{there} of {asked} {name_resource(resource, ask.amounts[resource])}"
            if resource != PODS
            else "no room for a pod"
        )
    return f"{grid.names[nearest]} comes nearest, with {listed(parts)}"


def _tell_holder(grid: Grid, node: Node, resource: str) -> str:
    """The run that holds most of a resource on a node, where the reader may know it: the next to be waited for."""
    named = [(held.amounts.get(resource, 0), name) for held in node.holdings if (name := grid.name_of(held))]
    amount, name = max(named, default=(0, ""))
    return f"; next: {grid.noun} {name} holds {show_amount(resource, amount)}" if amount else ""


def _tell_able(nodes: Sequence[Node]) -> str:
    names = listed([node.name for node in nodes], most=MOST_NAMED)
    return f"{_count(nodes, len(nodes))} that could take it ({names}) {'take' if len(nodes) > 1 else 'takes'}"


def _tell_causes(causes: Counter[str]) -> str:
    told = [f"{count} {'are' if count > 1 else 'is'} {cause}" for cause, count in causes.most_common()]
    return listed(told, most=MOST_NAMED)


def _taints_of(ask: Ask, node: Node) -> list[Taint]:
    """The taints that keep it off, each once; that of a cordoned node says no more than that it is."""
    cordoned = matching.is_cordoned(ask, kind_of(node))
    found = matching.find_taints(ask, kind_of(node))
    return [taint for taint in dict.fromkeys(found) if not (cordoned and taint.key == matching.CORDONED.key)]


def _count(those: Sized, total: int, which: str = "") -> str:
    """How many nodes are spoken of, and which: others do not match, where nothing else is said of them."""
    only = "" if len(those) == total else f" that {which or ('match' if len(those) > 1 else 'matches')}"
    return f"{len(those)} node{'s' * (len(those) > 1)}{only}"


def _show_all(ask: Ask) -> str:
    shown = [
        f"{show_amount(resource, amount)} {name_resource(resource, amount)}"
        for resource, amount in ask.amounts.items()
        if resource != PODS and amount
    ]
    return listed(shown) if shown else ""


def _is(resource: str, amount: int) -> str:
    return "is" if resource in SIZES or amount == NANOS else "are"


def _at(columns: Columns, resource: str, at: int) -> int:
    return max(columns[resource][at], 0) if resource in columns else 0

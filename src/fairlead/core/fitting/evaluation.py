"""Whether a run would run now, later or never on some nodes, and why not."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from heapq import nsmallest
from itertools import chain, islice

from fairlead.core.fitting import matching, wait_reasons
from fairlead.core.fitting.pod_requests import Ask
from fairlead.core.fitting.pod_resources import PODS
from fairlead.core.fitting.node_tables import Grid
from fairlead.core.fitting.reasons import Cause, Reason
from fairlead.core.fitting.filtering import Sieve
from fairlead.core.fitting.formatting import name_resource, path_of, show_amount, tell_apart
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


def judge(ask: Ask, grid: Grid, *, autoscaled: bool = False) -> Fit:
    """The verdict over all nodes, how many of each there are, and of the nearest ones every reason why not now.

    Autoscaled: other nodes may appear.
    """
    sieve = Sieve(ask, grid)
    verdict = judge_sieve(sieve, autoscaled=autoscaled)
    counts = {NOW: len(sieve.now), LATER: len(sieve.best) - len(sieve.now), NEVER: len(grid) - len(sieve.best)}
    reasons = {node.name: tell(sieve, node) for node in _find_nearest(sieve)}
    seen = tuple({"name": name, "fits": not found, "reasons": found} for name, found in reasons.items())
    return Fit(verdict, seen, _sum_up(sieve, reasons) if verdict != NOW else (), counts=counts)


def judge_sieve(sieve: Sieve, *, autoscaled: bool = False) -> str:
    """The verdict alone."""
    count = sieve.ask.count
    if fits_now(sieve):
        return NOW
    if autoscaled or (sieve.best and (count == 1 or sieve.count_best(count) >= count)):
        return LATER
    return NEVER


def fits_now(sieve: Sieve) -> bool:
    """Whether there is room for all of its pods now."""
    count = sieve.ask.count
    return bool(sieve.now) and (count == 1 or sieve.count_now(count) >= count)


def find_reasons(sieve: Sieve, node: Node) -> Iterator[Reason]:
    """Every reason why the node does not take it now, with numbers."""
    ask = sieve.ask
    yield from matching.find_mismatches(ask, node)
    for resource, amount in ask.amounts.items():
        if amount > max(node.free(resource), 0):  # who asks for none is not kept off by what is overdrawn
            message, lasts = _explain(resource, amount, node, sieve.grid), amount > node.capacity.get(resource, 0)
            yield Reason(Cause.AMOUNT, path_of(resource), message, resource, lasts)
    for check in sieve.checks:
        yield from check(node)


def tell(sieve: Sieve, node: Node) -> list[str]:
    """Every reason in words. The taint of a cordoned node says no more than that it is cordoned."""
    found = list(find_reasons(sieve, node))
    if any(reason.cause is Cause.CORDONED for reason in found):
        same = f"tainted {matching.CORDONED},"
        found = [reason for reason in found if same not in reason.message]
    return [reason.message for reason in found]


def refuse(ask: Ask, grid: Grid) -> Iterator[Violation]:
    """Why no node could take it, even an empty one: told of the node that comes nearest."""
    sieve = Sieve(ask, grid)
    nearest = min((_find_lasting(sieve, node) for node in _find_nearest(sieve)), key=len, default=[])
    if not nearest and len(grid):
        message = f"has {ask.count} pods; if nothing else ran, {sieve.count_best(ask.count)} of them would fit"
        nearest = [Reason(Cause.AMOUNT, "replicas", message, PODS)]
    for reason in nearest or [Reason(Cause.LABELS, "", "there is no node on which it could run")]:
        yield Violation(reason.path, "never_fits", reason.message, _hint(sieve, reason))


def _hint(sieve: Sieve, reason: Reason) -> str:
    """What to do about a reason that lasts: the most that could be asked for, where it is an amount."""
    resource = reason.resource if reason.cause is Cause.AMOUNT else ""
    column = sieve.grid.capacity.get(resource)
    if resource == PODS:
        return "ask for fewer replicas" if reason.path == "replicas" else OTHERWISE
    if column is None:
        return HINTS.get(reason.cause, OTHERWISE)
    rest = Sieve(replace(sieve.ask, amounts={**sieve.ask.amounts, resource: 0}), sieve.grid)
    most = max((column[at] for at in rest.best or sieve.suited), default=0)
    if not most:
        return HINTS[Cause.AMOUNT]
    return f"ask for {show_amount(resource, most)} {name_resource(resource, most)} or less"


def _find_nearest(sieve: Sieve) -> list[Node]:
    """Nodes that take it, then those that could, then the others, by name; and not too many of them."""
    names, found = sieve.grid.names, dict[int, None]()
    for positions in (sieve.now, sieve.best, range(len(names))):
        if len(found) < MOST_NODES:
            found |= dict.fromkeys(nsmallest(MOST_NODES + len(found), positions, key=names.__getitem__))
    return [sieve.grid.nodes[at] for at in islice(found, MOST_NODES)]


def _find_lasting(sieve: Sieve, node: Node) -> list[Reason]:
    return [reason for reason in find_reasons(sieve, node) if reason.lasts]


def _sum_up(sieve: Sieve, reasons: dict[str, list[str]]) -> tuple[str, ...]:
    """Every reason of the only node; of many nodes, what it comes down to."""
    if len(sieve.grid) == 1 and sieve.ask.count == 1:
        return tuple(chain(*reasons.values()))
    return (wait_reasons.explain_wait(sieve),)


def _explain(resource: str, amount: int, node: Node, grid: Grid) -> str:
    word, has, free = name_resource(resource, amount), node.capacity.get(resource, 0), max(node.free(resource), 0)
    asked, there = tell_apart(resource, amount, has)
    if amount > has:
        has_in_all = f"{there} in all" if has else "none"
        return f"asks for {asked} {word}; {node.name} has {has_in_all}"
    holders = [holding for holding in node.holdings if holding.amounts.get(resource)]
    named = _name_holders(holders, grid)
    if resource == PODS:
        noun = "runs" if all(holding.run_id for holding in holders) else "pods"
        return f"{node.name} takes {show_amount(resource, has)} {noun} at once, and no more; it has {named}"
    asked, left = tell_apart(resource, amount, free)
    holding = f"{named} hold{'s' * (len(holders) == 1)} the rest"
    return f"asks for {asked} {word}; {left} of {show_amount(resource, has)} are free on {node.name}: {holding}"


def _name_holders(holders: Sequence[Holding], grid: Grid) -> str:
    """Who holds something, as far as the reader may know."""
    named = [f"{grid.noun} {name}" for holding in holders if (name := grid.name_of(holding)) is not None][:MOST_NAMED]
    more = len(holders) - len(named)
    noun = "run" if all(holding.run_id for holding in holders) else "pod"
    rest = [f"{more} other{'s' * (more > 1)}" if named else f"{more} {noun}{'s' * (more > 1)}"] if more else []
    return " and ".join([*([", ".join(named)] if named else []), *rest])

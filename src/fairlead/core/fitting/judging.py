"""Whether a run would run now, later or never on some nodes, and why not."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain

from fairlead.core.fitting import matching, waiting
from fairlead.core.fitting.asking import PODS, Ask, Reason
from fairlead.core.fitting.wording import name_resource, path_of, show_amount, tell_apart
from fairlead.model.nodes import Holding, Node
from fairlead.model.plans import Fit, Violation

MOST_NAMED = 3
WAYS_OUT = {"resources": "ask for less", "tolerations": "tolerate it"}


def judge(ask: Ask, nodes: Sequence[Node], *, autoscaled: bool = False) -> Fit:
    """The verdict over all nodes, and for each of them every reason why not now. Autoscaled: others may appear."""
    reasons = {node.name: tuple(reason.message for reason in find_reasons(ask, node)) for node in nodes}
    if any(not found for found in reasons.values()):
        verdict = "now"
    elif autoscaled or any(could_ever_fit(ask, node) for node in nodes):
        verdict = "later"
    else:
        verdict = "never"
    seen = tuple({"name": name, "fits": not found, "reasons": list(found)} for name, found in reasons.items())
    return Fit(verdict=verdict, nodes=seen, reasons=_sum_up(ask, nodes, reasons) if verdict != "now" else ())


def could_ever_fit(ask: Ask, node: Node) -> bool:
    """Whether the node would take it at its best: if nothing else ran there, and it were well."""
    return not any(find_reasons(ask, matching.at_best(node)))


def find_reasons(ask: Ask, node: Node) -> Iterator[Reason]:
    """Every reason why the node does not take it now, with numbers."""
    yield from matching.find_mismatches(ask, node)
    for resource, amount in ask.amounts.items():
        if amount > max(node.free(resource), 0):  # who asks for none is not kept off by what is overdrawn
            yield Reason(path_of(resource), _explain(resource, amount, node))


def refuse(ask: Ask, nodes: Sequence[Node]) -> Iterator[Violation]:
    """Why no node could take it, even an empty one: told of the node that comes nearest."""
    nearest = min(([*find_reasons(ask, matching.at_best(node))] for node in nodes), key=len, default=[])
    for reason in nearest or [Reason("", "there is no node on which it could run")]:
        way_out = WAYS_OUT.get(reason.path.partition(".")[0], "leave it out")
        yield Violation(reason.path, "never_fits", reason.message, f"{way_out}, or run it on another cluster")


def _sum_up(ask: Ask, nodes: Sequence[Node], reasons: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    """Every reason of the only node; of many nodes, what it comes down to."""
    return (waiting.explain_wait(ask, nodes),) if len(nodes) > 1 else tuple(chain(*reasons.values()))


def _explain(resource: str, amount: int, node: Node) -> str:
    word, has, free = name_resource(resource), node.capacity.get(resource, 0), max(node.free(resource), 0)
    asked, there = tell_apart(resource, amount, has)
    if amount > has:
        has_in_all = f"{there} in all" if has else "none"
        return f"asks for {asked} {word}; {node.name} has {has_in_all}"
    holders = [holding for holding in node.holdings if holding.amounts.get(resource)]
    named = _name_holders(holders)
    if resource == PODS:
        return f"{node.name} runs {show_amount(resource, has)} runs at once, and no more; it runs {named}"
    asked, left = tell_apart(resource, amount, free)
    holding = f"{named} hold{'s' * (len(holders) == 1)} the rest"
    return f"asks for {asked} {word}; {left} of {show_amount(resource, has)} are free on {node.name}: {holding}"


def _name_holders(holders: Sequence[Holding]) -> str:
    """Who holds something, as far as the reader may know."""
    named = [f"run {holding.name}" for holding in holders if holding.name is not None][:MOST_NAMED]
    more = len(holders) - len(named)
    rest = [f"{more} other{'s' * (more > 1)}" if named else f"{more} run{'s' * (more > 1)}"] if more else []
    return " and ".join([*([", ".join(named)] if named else []), *rest])

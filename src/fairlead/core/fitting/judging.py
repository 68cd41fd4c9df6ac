"""Whether a run would run now, later or never on some nodes, and why not."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from fairlead.core.fitting import matching
from fairlead.core.fitting.asking import PODS, Ask, Reason
from fairlead.model.nodes import Holding, Node
from fairlead.model.plans import Fit, Violation
from fairlead.model.quantities import NANOS, Form, Quantity

WORDS = {"cpu": "CPU", "memory": "memory", "ephemeral-storage": "disk", PODS: "runs at once"}
PATHS = {"cpu": "resources.cpu", "memory": "resources.mem", "ephemeral-storage": "resources.disk"}
PATHS |= {"nvidia.com/gpu": "resources.gpu", "amd.com/gpu": "resources.gpu"}
MOST_NAMED = 3


def judge(ask: Ask, nodes: Sequence[Node]) -> Fit:
    """The verdict over all nodes, and for each of them every reason why not now."""
    reasons = {node.name: tuple(reason.message for reason in find_reasons(ask, node)) for node in nodes}
    if any(not found for found in reasons.values()):
        verdict = "now"
    elif any(could_ever_fit(ask, node) for node in nodes):
        verdict = "later"
    else:
        verdict = "never"
    told = tuple(reason for found in reasons.values() for reason in found) if verdict != "now" else ()
    seen = tuple({"name": name, "fits": not found, "reasons": list(found)} for name, found in reasons.items())
    return Fit(verdict=verdict, nodes=seen, reasons=told)


def could_ever_fit(ask: Ask, node: Node) -> bool:
    """Whether the node would take it if nothing else ran there."""
    return not any(find_reasons(ask, replace(node, holdings=())))


def find_reasons(ask: Ask, node: Node) -> Iterator[Reason]:
    """Every reason why the node does not take it now, with numbers."""
    yield from matching.find_mismatches(ask, node)
    for resource, amount in ask.amounts.items():
        if amount > node.free(resource):
            yield Reason(PATHS.get(resource, f"resources.extended.{resource}"), _explain(resource, amount, node))


def refuse(ask: Ask, nodes: Sequence[Node]) -> Iterator[Violation]:
    """Why no node could take it, even an empty one: told of the node that comes nearest."""
    empty = [replace(node, holdings=()) for node in nodes]
    nearest = min(([*find_reasons(ask, node)] for node in empty), key=len, default=[])
    for reason in nearest or [Reason("", "there is no node on which it could run")]:
        less = "ask for less" if reason.path.startswith("resources.") else "leave it out"
        yield Violation(reason.path, "never_fits", reason.message, f"{less}, or run it on another cluster")


def _explain(resource: str, amount: int, node: Node) -> str:
    word, has, free = name_resource(resource), node.capacity.get(resource, 0), max(node.free(resource), 0)
    asked, there = _tell_apart(resource, amount, has)
    if amount > has:
        has_in_all = f"{there} in all" if has else "none"
        return f"asks for {asked} {word}; {node.name} has {has_in_all}"
    holders = [holding for holding in node.holdings if holding.amounts.get(resource)]
    named = _name_holders(holders)
    if resource == PODS:
        return f"{node.name} runs {show_amount(resource, has)} runs at once, and no more; it runs {named}"
    asked, left = _tell_apart(resource, amount, free)
    holding = f"{named} hold{'s' * (len(holders) == 1)} the rest"
    return f"asks for {asked} {word}; {left} of {show_amount(resource, has)} are free on {node.name}: {holding}"


def _tell_apart(resource: str, one: int, other: int) -> tuple[str, str]:
    """Two amounts as people write them; to the last byte where they would look the same."""
    shown = show_amount(resource, one), show_amount(resource, other)
    if shown[0] != shown[1] or one == other:
        return shown
    return str(Quantity(one, Form.DECIMAL)), str(Quantity(other, Form.DECIMAL))


def _name_holders(holders: Sequence[Holding]) -> str:
    """Who holds something, as far as the reader may know."""
    named = [f"run {holding.name}" for holding in holders if holding.name is not None][:MOST_NAMED]
    more = len(holders) - len(named)
    rest = [f"{more} other{'s' * (more > 1)}" if named else f"{more} run{'s' * (more > 1)}"] if more else []
    return " and ".join([*([", ".join(named)] if named else []), *rest])


def name_resource(resource: str) -> str:
    """A resource in a sentence."""
    return WORDS.get(resource, "GPU" if resource.endswith("/gpu") else resource)


def show_amount(resource: str, nanos: int) -> str:
    """An amount as people write it: memory in round binary units, everything else as it is."""
    if resource not in ("memory", "ephemeral-storage"):
        return str(Quantity(nanos, Form.DECIMAL))
    size = nanos // NANOS
    for unit, name in ((2**40, "Ti"), (2**30, "Gi"), (2**20, "Mi")):
        if size >= unit:
            return f"{size / unit:.1f}".removesuffix(".0") + name
    return str(size)

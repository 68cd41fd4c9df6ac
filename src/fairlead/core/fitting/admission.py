"""Which of the waiting runs a machine takes now: the oldest first, and who waits long is not overtaken."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from fairlead.core.fitting import judging, matching
from fairlead.core.fitting.asking import PODS, Ask
from fairlead.core.fitting.wording import name_resource, show_amount
from fairlead.model.nodes import Holding, Node

PATIENCE_SECONDS = 300.0
HELD_BACK = "waits for a larger run, which has waited for longer"


@dataclass(frozen=True)
class Waiting:
    """A run that waits for a place."""

    run_id: str
    name: str
    ask: Ask
    waited_seconds: float = 0.0


@dataclass(frozen=True)
class Verdict:
    """Whether a waiting run has a place now; if not, a reason to match and why, in words that hold for a while."""

    run_id: str
    admitted: bool
    reason: str = ""
    message: str = ""


def admit(queue: Sequence[Waiting], node: Node) -> Iterator[Verdict]:
    """What becomes of each waiting run. Small ones may pass a large one, until it has waited for long."""
    held_back, empty = False, matching.at_best(node)
    for waiting in queue:
        fits = not any(judging.find_reasons(waiting.ask, node))
        if not fits and (whys := list(judging.find_reasons(waiting.ask, empty))):
            yield Verdict(waiting.run_id, False, "NeverFits", "; ".join(why.message for why in whys))
        elif held_back:
            yield Verdict(waiting.run_id, False, "HeldBack", HELD_BACK)
        elif fits:
            holding = Holding(waiting.run_id, waiting.name, waiting.ask.amounts)
            node = replace(node, holdings=(*node.holdings, holding))
            yield Verdict(waiting.run_id, True)
        else:
            yield Verdict(waiting.run_id, False, "Unschedulable", describe_wait(waiting.ask, node))
            if waiting.waited_seconds > PATIENCE_SECONDS:
                held_back = True


def describe_wait(ask: Ask, node: Node) -> str:
    """What a run waits for, without what changes by the second: who asks why is told the moment's numbers."""
    short = [
        f"{show_amount(resource, amount)} {name_resource(resource)}"
        for resource, amount in ask.amounts.items()
        if amount > node.free(resource) and resource != PODS
    ]
    if not short:
        return "waits until another run has ended: only so many run at once"
    return f"waits until {' and '.join(short)} {'are' if len(short) > 1 else 'is'} free"

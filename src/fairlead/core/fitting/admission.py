"""Which of the waiting runs a machine takes now: the oldest first, and who waits long is not overtaken."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from fairlead.core.fitting import evaluation
from fairlead.core.fitting.pod_requests import Ask
from fairlead.core.fitting.pod_resources import PODS
from fairlead.core.fitting.node_tables import Grid
from fairlead.core.fitting.filtering import Sieve, place
from fairlead.core.fitting.formatting import name_resource, show_amount
from fairlead.model.nodes import Node

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


class Door:
    """The way onto a machine, for one waiting run after the other, the oldest first."""

    def __init__(self, node: Node) -> None:
        self._node, self._grid, self._held_back = node, Grid([node]), False

    def could_take(self, waiting: Waiting) -> bool:
        """Whether the machine would take it if it were empty."""
        return bool(Sieve(waiting.ask, self._grid).best)

    def judge(self, waiting: Waiting) -> Verdict:
        """What becomes of the next one. Small ones may pass a large one, until it has waited for long."""
        sieve = Sieve(waiting.ask, self._grid)
        fits = bool(sieve.now)
        if not fits and not sieve.best:
            whys = [why.message for why in evaluation.find_reasons(sieve, self._node) if why.lasts]
            return Verdict(waiting.run_id, False, "NeverFits", "; ".join(whys))
        if self._held_back:
            return Verdict(waiting.run_id, False, "HeldBack", HELD_BACK)
        if fits:
            self._node = place(waiting.ask, self._node, waiting.run_id, waiting.name)
            self._grid.put(self._node)
            return Verdict(waiting.run_id, True)
        self._held_back = waiting.waited_seconds > PATIENCE_SECONDS
        return Verdict(waiting.run_id, False, "Unschedulable", describe_wait(waiting.ask, self._node))


def admit(queue: Sequence[Waiting], node: Node) -> Iterator[Verdict]:
    """What becomes of each waiting run."""
    return map(Door(node).judge, queue)


def describe_wait(ask: Ask, node: Node) -> str:
    """What a run waits for, without what changes by the second: who asks why is told the moment's numbers."""
    short = [
        f"{show_amount(resource, amount)} {name_resource(resource, amount)}"
        for resource, amount in ask.amounts.items()
        if amount > node.free(resource) and resource != PODS
    ]
    if not short:
        return "waits until another run has ended: only so many run at once"
    return f"waits until {' and '.join(short)} {'are' if len(short) > 1 else 'is'} free"

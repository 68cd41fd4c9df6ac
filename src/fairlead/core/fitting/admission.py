"""Which of the waiting runs a machine takes now: the oldest first, and who waits long is not overtaken."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from fairlead.core.fitting import evaluation
from fairlead.core.fitting.filtering import NodeFilter, place
from fairlead.core.fitting.formatting import name_resource, show_amount
from fairlead.core.fitting.node_tables import NodeTable
from fairlead.core.fitting.pod_requests import PodRequest
from fairlead.core.fitting.pod_resources import PODS
from fairlead.model.nodes import Node

PATIENCE_SECONDS = 300.0
WAITING_FOR_TURN = "waits for a larger run, which has waited for longer"


@dataclass(frozen=True)
class QueuedRun:
    """A run that waits for a place."""

    run_id: str
    name: str
    pod_request: PodRequest
    waited_seconds: float = 0.0


@dataclass(frozen=True)
class AdmissionDecision:
    """Whether a waiting run has a place now; if not, a reason to match and why, in words that hold for a while."""

    run_id: str
    admitted: bool
    reason: str = ""
    message: str = ""


class AdmissionSession:
    """The way onto a machine, for one waiting run after the other, the oldest first."""

    def __init__(self, node: Node) -> None:
        self._node, self._table, self._held_back = node, NodeTable([node]), False

    def could_take(self, waiting: QueuedRun) -> bool:
        """Whether the machine would take it if it were empty."""
        return bool(NodeFilter(waiting.pod_request, self._table).feasible_when_empty)

    def decide(self, waiting: QueuedRun) -> AdmissionDecision:
        """What becomes of the next one. Small ones may pass a large one, until it has waited for long."""
        node_filter = NodeFilter(waiting.pod_request, self._table)
        fits = bool(node_filter.feasible)
        if not fits and not node_filter.feasible_when_empty:
            whys = [why.message for why in evaluation.find_reasons(node_filter, self._node) if why.lasts]
            return AdmissionDecision(waiting.run_id, False, "NeverFits", "; ".join(whys))
        if self._held_back:
            return AdmissionDecision(waiting.run_id, False, "WaitingForTurn", WAITING_FOR_TURN)
        if fits:
            self._node = place(waiting.pod_request, self._node, waiting.run_id, waiting.name)
            self._table.put(self._node)
            return AdmissionDecision(waiting.run_id, True)
        self._held_back = waiting.waited_seconds > PATIENCE_SECONDS
        return AdmissionDecision(waiting.run_id, False, "Unschedulable", describe_wait(waiting.pod_request, self._node))


def admit(queue: Sequence[QueuedRun], node: Node) -> Iterator[AdmissionDecision]:
    """What becomes of each waiting run."""
    return map(AdmissionSession(node).decide, queue)


def describe_wait(pod_request: PodRequest, node: Node) -> str:
    """What a run waits for, without what changes by the second: who asks why is told the moment's numbers."""
    short = [
        f"{show_amount(resource, amount)} {name_resource(resource, amount)}"
        for resource, amount in pod_request.amounts.items()
        if amount > node.free(resource) and resource != PODS
    ]
    if not short:
        return "waits until another run has ended: only so many run at once"
    return f"waits until {' and '.join(short)} {'are' if len(short) > 1 else 'is'} free"

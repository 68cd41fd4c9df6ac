"""Admission of queued runs to a machine, oldest first. Smaller runs backfill until an older run has waited too long."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from fairlead.core.fitting import evaluation
from fairlead.core.fitting.filtering import NodeFilter, place
from fairlead.core.fitting.formatting import describe_amount, name_resource
from fairlead.core.fitting.node_tables import NodeTable
from fairlead.core.fitting.pod_requests import PodRequest
from fairlead.core.fitting.pod_resources import PODS
from fairlead.model.nodes import Node

# How long later runs may overtake a run that does not fit. A longer time keeps the machine busier, but it is also how
# long a steady stream of small runs can delay a large one.
PATIENCE_SECONDS = 300.0
WAITING_FOR_TURN = "waiting behind a larger run, which has been queued longer"


@dataclass(frozen=True)
class QueuedRun:
    """A run that is waiting for admission."""

    run_id: str
    name: str
    pod_request: PodRequest
    waited_seconds: float = 0.0
    scope: str = ""  # the scope of its project


@dataclass(frozen=True)
class AdmissionDecision:
    """Whether a run is admitted, and if not, why. The message avoids numbers that change every second."""

    run_id: str
    admitted: bool
    reason: str = ""
    message: str = ""


class AdmissionSession:
    """Admits queued runs to one machine. Call `decide` for each run, oldest first."""

    def __init__(self, node: Node) -> None:
        self._node, self._table = node, NodeTable([node])
        self._blocking: QueuedRun | None = None  # a run that has waited so long that no other run may overtake it

    def could_take(self, queued: QueuedRun) -> bool:
        """Whether the run would fit on the machine if it were empty."""
        return bool(NodeFilter(queued.pod_request, self._table).feasible_when_empty)

    def decide(self, queued: QueuedRun) -> AdmissionDecision:
        """Admit the next run, or explain why it has to wait."""
        node_filter = NodeFilter(queued.pod_request, self._table)
        fits = bool(node_filter.feasible)
        # This comes before the queue order: a run that can never start must neither wait behind others nor block them.
        if not fits and not node_filter.feasible_when_empty:
            messages = [reason.message for reason in evaluation.find_reasons(node_filter, self._node) if reason.lasts]
            return AdmissionDecision(queued.run_id, False, "NeverFits", "; ".join(messages))
        if self._blocking is not None:
            message = WAITING_FOR_TURN
            if self._blocking.scope == queued.scope:  # otherwise the reader may not be allowed to see the other run
                message = f"waiting behind {self._blocking.name}, which has been queued longer"
            return AdmissionDecision(queued.run_id, False, "WaitingForTurn", message)
        if fits:
            # Decisions on later runs in this pass must take this run into account, although it has not started yet.
            self._node = place(queued.pod_request, self._node, queued.run_id, queued.name)
            self._table.put(self._node)
            return AdmissionDecision(queued.run_id, True)
        if queued.waited_seconds > PATIENCE_SECONDS:
            self._blocking = queued
        return AdmissionDecision(queued.run_id, False, "Unschedulable", describe_wait(queued.pod_request, self._node))


def admit(queue: Sequence[QueuedRun], node: Node) -> Iterator[AdmissionDecision]:
    """The decision on each queued run, in order."""
    return map(AdmissionSession(node).decide, queue)


def describe_wait(pod_request: PodRequest, node: Node) -> str:
    """A message about the missing resources. It leaves out free amounts, because it is stored each time it changes."""
    short = [
        f"{describe_amount(resource, amount)} {name_resource(resource, amount)}"
        for resource, amount in pod_request.amounts.items()
        if amount > node.free(resource) and resource != PODS
    ]
    if not short:
        slots = describe_amount(PODS, node.capacity.get(PODS, 0))
        return f"waiting for a free slot ({slots} of {slots} in use)"
    return f"waiting for {' and '.join(short)}"

"""Admission to one machine: a run starts if it fits, and takes nothing that is reserved for a run ahead of it.

At most one waiting run has a reservation. It covers the whole request and stays until the run starts or stops, so that
a steady stream of small runs cannot delay a large one forever, while runs that need other resources start at once.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from fairlead.model.nodes import Node, NodeTable, PodRequest
from fairlead.scheduling import evaluation
from fairlead.scheduling.filters import NodeFilter, place
from fairlead.scheduling.pod_requests import PODS
from fairlead.scheduling.reasons import describe_amount, name_resource

RESERVE_AFTER_SECONDS = 300.0  # how long a run waits before what it requests is reserved
STOP_GRACE_SECONDS = 10.0  # between SIGTERM and SIGKILL of a run whose deadline has passed
WAITING_FOR_TURN = "WaitingForTurn"  # the reason of runs that would fit but must not take reserved resources


@dataclass(frozen=True)
class QueuedRun:
    """A run that is waiting for admission."""

    run_id: str
    name: str
    pod_request: PodRequest
    waited_seconds: float = 0.0
    scope: str = ""  # the scope of its project
    deadline_seconds: float | None = None  # how long its attempt may run


@dataclass(frozen=True)
class AdmissionDecision:
    """Whether a run is admitted, and if not, why. The message avoids numbers that change every second."""

    run_id: str
    admitted: bool
    reason: str = ""
    message: str = ""


class AdmissionSession:
    """Admits queued runs to one machine. Call `decide` for each run, in queue order.

    `load_releases` returns the running runs that have a deadline, with the seconds until then. The time that they get
    to stop afterwards is not included: they may end without it.
    """

    def __init__(
        self,
        node: Node,
        reserved: QueuedRun | None = None,
        *,
        reserve_after: float = RESERVE_AFTER_SECONDS,
        load_releases: Callable[[], Mapping[str, float]] = dict,
    ) -> None:
        self.node, self.reserved = node, reserved
        self._reserve_after, self._load_releases = reserve_after, load_releases
        self._loaded: Mapping[str, float] | None = None  # loaded only if a run could use reserved resources
        self._admitted: dict[str, float] = {}  # releases of runs admitted in this session

    def could_take(self, queued: QueuedRun) -> bool:
        """Whether the run would fit on the machine if it were empty."""
        return bool(NodeFilter(queued.pod_request, NodeTable([self.node])).feasible_when_empty)

    def decide(self, queued: QueuedRun, *, may_reserve: bool = True) -> AdmissionDecision:
        """Admit the next run, or explain why it has to wait."""
        is_reserved = self.reserved is not None and self.reserved.run_id == queued.run_id
        node_filter = NodeFilter(queued.pod_request, NodeTable([self.node]))
        if node_filter.feasible:
            conflict = None if is_reserved else self._find_conflict(queued)
            if conflict is not None:
                return AdmissionDecision(queued.run_id, False, WAITING_FOR_TURN, conflict)
            self._admit(queued, is_reserved=is_reserved)
            return AdmissionDecision(queued.run_id, True)
        # This comes before the reservation: a run that can never start must not keep others from starting.
        if not node_filter.feasible_when_empty:
            if is_reserved:
                self.reserved = None
            messages = [reason.message for reason in evaluation.find_reasons(node_filter, self.node) if reason.lasts]
            return AdmissionDecision(queued.run_id, False, "NeverFits", "; ".join(messages))
        if self.reserved is None and may_reserve and queued.waited_seconds >= self._reserve_after:
            self.reserved = queued
        return AdmissionDecision(queued.run_id, False, "Unschedulable", describe_wait(queued.pod_request, self.node))

    def _admit(self, queued: QueuedRun, *, is_reserved: bool) -> None:
        # Decisions on later runs in this pass must take this run into account, although it has not started yet.
        self.node = place(queued.pod_request, self.node, queued.run_id, queued.name)
        if queued.deadline_seconds is not None:
            self._admitted[queued.run_id] = queued.deadline_seconds
        if is_reserved:
            self.reserved = None

    def _find_conflict(self, queued: QueuedRun) -> str | None:
        """A message if the run must wait because it would take reserved resources; None if it may start."""
        if self.reserved is None or fits(queued.pod_request, with_reservation(self.node, self.reserved)):
            return None
        # The run may use reserved resources if it ends before the reserved run could start anyway.
        if queued.deadline_seconds is not None:
            release = self._find_release(self.reserved)
            if release is not None and queued.deadline_seconds + STOP_GRACE_SECONDS <= release:
                return None
        holder = "a run of another project"
        if self.reserved.scope == queued.scope:  # otherwise the reader may not be allowed to see the other run
            holder = self.reserved.name
        return describe_conflict(queued.pod_request, with_reservation(self.node, self.reserved), holder)

    def _find_release(self, reserved: QueuedRun) -> float | None:
        """Seconds until the deadlines of running runs guarantee that the reserved run fits; None if they never do."""
        if self._loaded is None:
            self._loaded = self._load_releases()
        node = self.node
        for run_id, seconds in sorted({**self._loaded, **self._admitted}.items(), key=lambda item: item[1]):
            node = replace(node, pods=tuple(pod for pod in node.pods if pod.run_id != run_id))
            if fits(reserved.pod_request, node):
                return seconds
        return None


def fits(pod_request: PodRequest, node: Node) -> bool:
    """Whether a machine has room for a run now."""
    return bool(NodeFilter(pod_request, NodeTable([node])).feasible)


def with_reservation(node: Node, reserved: QueuedRun) -> Node:
    """The machine as if the reserved run had started, although it may not fit yet."""
    return place(reserved.pod_request, node, reserved.run_id, reserved.name)


def describe_wait(pod_request: PodRequest, node: Node) -> str:
    """A message about the missing resources. It leaves out free amounts, because it is stored each time it changes."""
    if short := _describe_short(pod_request, node):
        return f"waiting for {short}"
    slots = describe_amount(PODS, node.capacity.get(PODS, 0))
    return f"waiting for a free slot ({slots} of {slots} in use)"


def describe_conflict(pod_request: PodRequest, left: Node, holder: str) -> str:
    """A message for a run that would fit without a reservation. `left` is the machine with the reservation."""
    needed = _describe_short(pod_request, left) or "a free slot"
    return f"it would fit, but what it needs ({needed}) is reserved for {holder}, which is ahead in the queue"


def _describe_short(pod_request: PodRequest, node: Node) -> str:
    """The requested amounts that a machine lacks, without slots."""
    return " and ".join(
        f"{describe_amount(resource, amount)} {name_resource(resource, amount)}"
        for resource, amount in pod_request.amounts.items()
        if amount > node.free(resource) and resource != PODS
    )

"""Queue order and admission: runs start by priority, then age, within quota limits.

Smaller runs backfill until an older run has waited too long.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

from fairlead.model.assets import Quota
from fairlead.model.columns import Condition
from fairlead.model.nodes import Node, NodeTable, PodRequest
from fairlead.model.plans import RunResources
from fairlead.model.runs import State
from fairlead.model.scopes import PLATFORM, ScopeTree
from fairlead.scheduling import evaluation, quotas
from fairlead.scheduling.filters import NodeFilter, place
from fairlead.scheduling.pod_requests import PODS
from fairlead.scheduling.quotas import UNITS, Allowance, QuotaAmounts, QuotaShortage
from fairlead.scheduling.reasons import describe_amount, name_resource

MILLISECONDS_PER_POINT = 3_600_000  # one point of priority is worth an hour of waiting
TIMESTAMP_DIGITS = 12  # the first hex digits of an ID (UUIDv7) are its creation time in milliseconds
QUOTA = "QuotaExceeded"  # the reason of runs that wait for a quota
# Quotas count runs from the moment a server claims them until they end. Waiting runs do not count.
ADMITTED = (Condition("active", "=", True), Condition("server_id", "!=", None))
WAITING = (
    Condition("active", "=", True),
    Condition("server_id", "=", None),
    Condition("state", "=", str(State.QUEUED)),
)
COUNTED_BY = ("scope", *RunResources._fields)

Tallies = Mapping[tuple[Any, ...], int]  # number of runs by scope and resources per run

# How long later runs may overtake a run that does not fit. A longer time keeps the machine busier, but it is also how
# long a steady stream of small runs can delay a large one.
PATIENCE_SECONDS = 300.0
WAITING_FOR_TURN = "waiting behind a larger run, which has been queued longer"


def queue_key(run_id: str, priority: int) -> str:
    """Sort key of a run in the queue: its ID, with the creation time moved back one hour per point of priority.

    A higher priority therefore only helps for a limited time, and no run waits forever.
    """
    if not priority:
        return run_id
    # Keys are compared as text, so they must have the same number of digits and no sign.
    moved = max(int(run_id[:TIMESTAMP_DIGITS], 16) - priority * MILLISECONDS_PER_POINT, 0)
    return f"{moved:0{TIMESTAMP_DIGITS}x}{run_id[TIMESTAMP_DIGITS:]}"


@dataclass(frozen=True)
class QuotaLimits:
    """The quotas of all scopes of an organization."""

    tree: ScopeTree = field(default_factory=ScopeTree)
    limits: Mapping[str, Mapping[str, int]] = field(default_factory=dict)  # by scope
    _paths: dict[str, tuple[str, ...]] = field(default_factory=dict, init=False, compare=False, repr=False)

    @classmethod
    def of(cls, tree: ScopeTree, quota_of_scopes: Iterable[tuple[str, Quota]]) -> Self:
        """Limits from the quotas of scopes. Quotas without any amount are ignored."""
        return cls(tree, {scope: limits for scope, quota in quota_of_scopes if (limits := quotas.limits_of(quota))})

    def limiting_scopes(self, scope: str) -> tuple[str, ...]:
        """The scopes whose quotas apply to a run in `scope`, from the platform down."""
        if not self.limits:
            return ()
        if scope not in self._paths:
            self._paths[scope] = tuple(parent for parent in self.tree.path(scope) if parent in self.limits)
        return self._paths[scope]

    def within(self, *scopes: str) -> tuple[Condition, ...]:
        """Conditions that select the runs in these scopes and in all scopes inside them."""
        # All runs are inside the platform, and a list of thousands of scopes would be slow.
        if PLATFORM in scopes:
            return ()
        descendants = {child for scope in scopes for child in self.tree.descendants(scope)}
        return (Condition("scope", "in", tuple({*scopes, *descendants})),)

    def allowances(self, tallies: Tallies) -> dict[str, Allowance]:
        """Each quota with its current usage, by scope."""
        used = dict.fromkeys(self.limits, quotas.NOTHING)
        # The database groups runs with equal resources, so this loop does not grow with the number of runs.
        for (scope, *resources), number in tallies.items():
            for limiting in self.limiting_scopes(scope):
                used[limiting] = used[limiting].plus(QuotaAmounts.of(RunResources(*resources), number))
        return {scope: Allowance(scope, limits, used[scope]) for scope, limits in self.limits.items()}


class Queue:
    """Tracks quota usage while waiting runs are considered in queue order."""

    def __init__(self, allowances: Mapping[str, Allowance]) -> None:
        self.allowances = dict(allowances)
        self._with_head: set[str] = set()  # scopes whose first waiting run has already been found

    def find_shortages(self, requested: QuotaAmounts, path: Sequence[str]) -> list[QuotaShortage]:
        """The resources that the quotas of `path` lack for a run; empty if the run may be admitted."""
        return quotas.find_shortages(requested, [self.allowances[scope] for scope in path])

    def add_usage(self, requested: QuotaAmounts, path: Sequence[str]) -> None:
        """Count the resources of an admitted run."""
        for scope in path:
            allowance = self.allowances[scope]
            self.allowances[scope] = replace(allowance, used=allowance.used.plus(requested))

    def reserve_for_waiting(
        self, requested: QuotaAmounts, path: Sequence[str], lacking: Sequence[QuotaShortage]
    ) -> None:
        """Reserve resources for a run that must wait, so that later runs cannot overtake it.

        For the first waiting run of a scope, everything that it requests is reserved: otherwise it could lack another
        resource once the first one is free. Quotas of lower scopes are included, because all their runs wait for the
        same quota. Nothing is reserved for a run that exceeds a quota by itself.
        """
        if any(shortage.exceeds_limit for shortage in lacking):
            return
        lacks = {(shortage.allowance.scope, shortage.part) for shortage in lacking}
        # Quotas above the first shortage are not reserved, because runs of other scopes share them.
        first = min(path.index(scope) for scope, _ in lacks)
        for scope in path[first:]:
            reserved = requested
            # For later waiting runs, reserve only what is lacking, so that runs that need other resources can overtake.
            if scope in self._with_head:
                reserved = QuotaAmounts(**{part: getattr(requested, part) for part in UNITS if (scope, part) in lacks})
            self._with_head.add(scope)
            self._reserve(reserved, scope)

    def reserve(self, requested: QuotaAmounts, path: Sequence[str]) -> None:
        """Reserve the resources of a run that is about to be admitted."""
        for scope in path:
            self._reserve(requested, scope)

    def _reserve(self, amounts: QuotaAmounts, scope: str) -> None:
        allowance = self.allowances[scope]
        self.allowances[scope] = replace(allowance, reserved=allowance.reserved.plus(amounts))


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

"""The order of a project's waiting runs, groups of equal requests, and quota usage while runs are considered.

`fair_shares` decides between projects, and `admission` whether a run starts on a machine.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from typing import Any, Self

from fairlead.model.assets import Quota
from fairlead.model.columns import Condition
from fairlead.model.names import RUN_LABEL
from fairlead.model.nodes import PodRequest
from fairlead.model.plans import RunResources
from fairlead.model.records import RunRecord
from fairlead.model.runs import State
from fairlead.model.scopes import PLATFORM, ScopeTree
from fairlead.scheduling import quotas
from fairlead.scheduling.fair_shares import GPU
from fairlead.scheduling.pod_requests import PODS
from fairlead.scheduling.quotas import UNITS, Allowance, QuotaAmounts, QuotaShortage

MILLISECONDS_PER_POINT = 3_600_000  # one point of priority is worth an hour of waiting
TIMESTAMP_DIGITS = 12  # hex digits of a time in milliseconds
QUOTA = "QuotaExceeded"  # the reason of runs that wait for a quota
NO_EXECUTOR = "NoExecutor"  # the reason of runs that wait for a server that executes the runs of their cluster
# Quotas count runs from the moment a server claims them until they end. Waiting runs do not count.
ADMITTED = (Condition("active", "=", True), Condition("server_id", "!=", None))
WAITING = (
    Condition("active", "=", True),
    Condition("server_id", "=", None),
    Condition("state", "=", str(State.QUEUED)),
)
COUNTED_BY = ("scope", *RunResources._fields)

Tallies = Mapping[tuple[Any, ...], int]  # number of runs by scope and resources per run

# Runs that are equal in these fields are one group: if the first of them cannot start, none of them can.
GROUPED_BY = ("scope", "cluster", "request_key", "mem_bytes", "priority")
# The resource of a fair share that a quota limits.
SHARED_RESOURCES = {"gpu": GPU, "cpu": "cpu", "mem": "memory", "runs": PODS}


def waits_for_executor(run: RunRecord) -> bool:
    """Whether a run waits for a server that executes the runs of its cluster. It then follows its project."""
    # A run with earlier attempts has logs and files on its cluster.
    return run.state == State.QUEUED and run.server_id is None and run.reason == NO_EXECUTOR and run.attempt == 1


def queue_key(submitted_at: datetime, run_id: str, priority: int) -> str:
    """Sort key of a run within its project: its submission time, moved back one hour per point of priority.

    A higher priority therefore only helps for a limited time, and no run waits forever. The ID decides between runs
    that were submitted in the same millisecond.
    """
    moved = max(int(submitted_at.timestamp() * 1000) - priority * MILLISECONDS_PER_POINT, 0)
    # Keys are compared as text, so they must have the same number of digits and no sign.
    return f"{moved:0{TIMESTAMP_DIGITS}x}{run_id}"


def request_key(pod_request: PodRequest, deadline_seconds: float | None) -> str:
    """A key that is equal for runs with equal requests. Their own labels, which contain the run's ID, are ignored."""
    labels = {name: value for name, value in pod_request.labels.items() if name != RUN_LABEL}
    content = (asdict(replace(pod_request, labels=labels)), deadline_seconds)
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:32]


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

    def capacity_for_shares(self, scope: str) -> dict[str, int]:
        """The limits that apply to a scope, in the units of fair shares. The highest scope with a limit counts."""
        capacity: dict[str, int] = {}
        # Limits of the highest scope replace the others: projects take turns in the largest quota that they share.
        for limiting in reversed(self.limiting_scopes(scope)):
            for part, limit in self.limits[limiting].items():
                capacity[SHARED_RESOURCES[part]] = limit * UNITS[part]
        return capacity

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

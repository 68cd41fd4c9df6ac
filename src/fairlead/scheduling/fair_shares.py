"""The order of waiting runs: the project with the smallest dominant share first, and within a project by queue key.

A project's dominant share is the largest of its shares of any resource (Dominant Resource Fairness): a project that
uses half of the GPUs and a tenth of the memory has a share of one half.
"""

import heapq
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from fairlead.model.nodes import Amounts, Node
from fairlead.model.plans import RunResources
from fairlead.model.quantities import MILLICORE, NANOS
from fairlead.scheduling.pod_requests import PODS

URGENT_SECONDS = 24 * 3600.0  # a run that has waited this long goes first, whatever the share of its project
GPU = "gpu"  # GPUs of all vendors and products count as one resource
# For each column of a run's resources: the resource, and its unit in nanos.
RUN_COLUMNS = {
    "gpus": (GPU, NANOS),
    "cpu_millicores": ("cpu", MILLICORE),
    "mem_bytes": ("memory", NANOS),
    "disk_bytes": ("ephemeral-storage", NANOS),
}
_RESOURCES = [resource for resource, _ in RUN_COLUMNS.values()]


def held_amounts(resources: RunResources, count: int = 1) -> dict[str, int]:
    """The amounts that `count` runs with these resources hold, including their slots."""
    amounts = {name: getattr(resources, column) * unit * count for column, (name, unit) in RUN_COLUMNS.items()}
    return {**amounts, PODS: NANOS * count}


def capacity_for_shares(node: Node) -> dict[str, int]:
    """The capacity of a machine, with the sum of its GPUs."""
    return {**node.capacity, GPU: sum(node.capacity[name] for name in _gpu_resources(node))}


def free_for_shares(node: Node) -> dict[str, int]:
    """The free amounts of a machine, with the sum of its free GPUs."""
    free = {name: max(node.free(name), 0) for name in node.capacity}
    return {**dict.fromkeys(_RESOURCES, 0), **free, GPU: sum(free[name] for name in _gpu_resources(node))}


def _gpu_resources(node: Node) -> list[str]:
    return [name for name in node.capacity if name.endswith(f"/{GPU}")]


def dominant_share(held: Amounts, capacity: Amounts) -> float:
    """The largest share of any resource. Resources without capacity have no share."""
    return max((amount / capacity[name] for name, amount in held.items() if capacity.get(name)), default=0.0)


@dataclass(frozen=True, order=True)
class QueueEntry:
    """A waiting run, or the first of several runs that request the same. Entries sort by queue key."""

    queue_key: str
    scope: str
    run_id: str
    waited_seconds: float = field(default=0.0, compare=False)

    @property
    def is_urgent(self) -> bool:
        """Whether the run has waited so long that it goes first."""
        return self.waited_seconds >= URGENT_SECONDS


@dataclass
class FairQueue:
    """Waiting runs in the order in which they are considered. Shares grow while runs are admitted."""

    capacity_of: Callable[[str], Amounts]  # the capacity that counts for a project
    weight_of: Callable[[str], float] = lambda _scope: 1.0
    _held: dict[str, dict[str, int]] = field(default_factory=dict)
    _urgent: list[QueueEntry] = field(default_factory=list)
    _entries: dict[str, list[QueueEntry]] = field(default_factory=dict)  # by project; each list is a heap
    # A heap of (share, first entry), which may contain outdated pairs: they are skipped when they are first.
    _projects: list[tuple[float, QueueEntry]] = field(default_factory=list)

    def add(self, entry: QueueEntry) -> None:
        """Add a waiting run."""
        if entry.is_urgent:
            heapq.heappush(self._urgent, entry)
            return
        entries = self._entries.setdefault(entry.scope, [])
        heapq.heappush(entries, entry)
        if entries[0] is entry:
            self._put_project(entry.scope)

    def next(self) -> QueueEntry | None:
        """Remove and return the run that is next; None if the queue is empty."""
        if self._urgent:
            return heapq.heappop(self._urgent)
        while self._projects:
            share, entry = heapq.heappop(self._projects)
            entries = self._entries[entry.scope]
            if entries and entries[0] is entry and share == self.share_of(entry.scope):
                heapq.heappop(entries)
                self._put_project(entry.scope)
                return entry
        return None

    def share_of(self, scope: str) -> float:
        """The dominant share of what a project holds, divided by its weight."""
        held = self._held.get(scope)
        return 0.0 if held is None else dominant_share(held, self.capacity_of(scope)) / self.weight_of(scope)

    def count_admitted(self, scope: str, amounts: Mapping[str, int]) -> None:
        """Count the amounts of an admitted run, or those of runs that were admitted before."""
        held = self._held.setdefault(scope, {})
        for name, amount in amounts.items():
            held[name] = held.get(name, 0) + amount
        self._put_project(scope)

    def _put_project(self, scope: str) -> None:
        if entries := self._entries.get(scope):
            heapq.heappush(self._projects, (self.share_of(scope), entries[0]))

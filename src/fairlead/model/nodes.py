"""Nodes: what they have, what is taken, and by whom. Amounts are billionths, as quantities have them inside."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

Amounts = Mapping[str, int]  # by Kubernetes' names of resources: cpu, memory, ephemeral-storage, nvidia.com/gpu, pods


class Taint(NamedTuple):
    """What keeps runs off a node that do not tolerate it."""

    key: str
    value: str
    effect: str  # NoSchedule, PreferNoSchedule or NoExecute

    def __str__(self) -> str:
        """As kubectl writes it."""
        return f"{self.key}{'=' * bool(self.value)}{self.value}:{self.effect}"


@dataclass(frozen=True)
class Holding:
    """What one run holds of a node. Without a name where the reader may not see the run."""

    run_id: str
    name: str | None
    amounts: Amounts
    project: str = ""


@dataclass(frozen=True)
class Node:
    """One machine on which runs are executed."""

    name: str
    capacity: Amounts
    labels: Mapping[str, str] = field(default_factory=dict)
    holdings: tuple[Holding, ...] = ()
    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False  # cordoned: it takes nothing new

    @cached_property
    def projects(self) -> frozenset[str]:
        """Whose runs are there, as far as they are named."""
        return frozenset(holding.project for holding in self.holdings if holding.name is not None)

    @cached_property
    def _free(self) -> dict[str, int]:
        free = dict(self.capacity)
        for holding in self.holdings:
            for resource, amount in holding.amounts.items():
                free[resource] = free.get(resource, 0) - amount
        return free

    def free(self, resource: str) -> int:
        """What is left of a resource; none where the node does not have it."""
        return self._free.get(resource, 0)

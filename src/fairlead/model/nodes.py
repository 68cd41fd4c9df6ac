"""Nodes: what they have, what is taken, and by whom. Amounts are billionths, as quantities have them inside."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

Amounts = Mapping[str, int]  # by Kubernetes' names of resources: cpu, memory, ephemeral-storage, nvidia.com/gpu, pods


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

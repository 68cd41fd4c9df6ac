"""Nodes: what they have, what is taken, and by whom. Amounts are billionths, as quantities have them inside."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

Amounts = Mapping[str, int]  # by Kubernetes' names of resources: cpu, memory, ephemeral-storage, nvidia.com/gpu, pods
Labels = Mapping[str, str]
Term = Mapping[str, Any]  # of an affinity, as Kubernetes writes it


class Taint(NamedTuple):
    """What keeps runs off a node that do not tolerate it."""

    key: str
    value: str
    effect: str  # NoSchedule, PreferNoSchedule or NoExecute

    def __str__(self) -> str:
        """As kubectl writes it."""
        return f"{self.key}{'=' * bool(self.value)}{self.value}:{self.effect}"


class Port(NamedTuple):
    """A port of a node that a pod has for itself."""

    protocol: str
    ip: str
    number: int


class Device(NamedTuple):
    """One GPU of a node whose GPUs are shared. `memory` is in MiB, `slots` how many pods it takes at once."""

    id: str
    memory: int
    slots: int
    healthy: bool = True
    kind: str = ""


class GpuAllocation(NamedTuple):
    """What a pod holds of one GPU: memory in MiB, or a part of its memory in percent where that is all that is said."""

    device: str
    memory: int = 0
    percent: int = 0


@dataclass(frozen=True, slots=True)
class Holding:
    """What one pod holds of a node, and what others must reckon with.

    Without a name where the reader may not see its run, or it is of none.
    """

    run_id: str
    name: str | None
    amounts: Amounts
    project: str = ""
    namespace: str = ""
    labels: Labels = field(default_factory=dict)
    repels: tuple[Term, ...] = ()  # the pods that it does not bear near it
    ports: tuple[Port, ...] = ()
    claims: tuple[str, ...] = ()
    gpu_allocations: tuple[GpuAllocation, ...] = ()
    leaving: bool = False


@lru_cache(maxsize=4096)  # equal texts that are the same are quickly found to be equal
def _share(text: str) -> str:
    return text


class Repelling(NamedTuple):
    """A pod that does not bear others near it. Those with the same key do not bear the same ones."""

    key: str
    holding: Holding
    term: Term

    @classmethod
    def of(cls, holding: Holding, term: Term) -> "Repelling":
        """The pod and its term. Its own labels matter where the term is about pods that have the same, or others."""
        own = holding.labels if term.get("matchLabelKeys") or term.get("mismatchLabelKeys") else None
        return cls(_share(repr((term, holding.namespace, own))), holding, term)


@dataclass(frozen=True)
class Node:
    """One machine on which runs are executed."""

    name: str
    capacity: Amounts
    labels: Labels = field(default_factory=dict)
    holdings: tuple[Holding, ...] = ()
    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False  # cordoned: it takes nothing new
    devices: tuple[Device, ...] = ()  # of a node whose GPUs are shared, where it says which there are

    @cached_property
    def repelling(self) -> tuple[Repelling, ...]:
        """The pods there that do not bear others near them, with each of their terms."""
        return tuple(Repelling.of(holding, term) for holding in self.holdings for term in holding.repels)

    @cached_property
    def left(self) -> Amounts:
        """What is left of each resource; less than nothing where it is overdrawn."""
        left = dict(self.capacity)
        for holding in self.holdings:
            for resource, amount in holding.amounts.items():
                left[resource] = left.get(resource, 0) - amount
        return left

    def free(self, resource: str) -> int:
        """What is left of a resource; none where the node does not have it."""
        return self.left.get(resource, 0)


@dataclass(frozen=True)
class Volume:
    """Storage that is there, and the nodes that reach it."""

    name: str
    node_terms: tuple[Term, ...] | None = None  # of which one must hold; None: every node reaches it
    labels: Labels = field(default_factory=dict)  # zones and regions, as older ones say them
    claimed_by: tuple[str, str] | None = None  # namespace and name of the claim that it is kept for
    claim_uid: str = ""  # of that claim, where it is for this very one and no later one of that name
    size: int = 0
    modes: tuple[str, ...] = ()
    storage_class: str = ""
    block: bool = False
    available: bool = False
    attributes_class: str = ""
    leaving: bool = False


@dataclass(frozen=True)
class Claim:
    """What asks for storage: with the volume that it got, or the class that is to make one."""

    volume: str = ""
    storage_class: str | None = None
    size: int = 0
    modes: tuple[str, ...] = ()
    selector: Mapping[str, Any] | None = None
    block: bool = False
    bound: bool = False  # the cluster has said so, beyond the name of the volume
    attributes_class: str = ""
    chosen_node: str = ""  # where its volume is being made
    lost: bool = False  # the volume that it had is gone
    leaving: bool = False
    uid: str = ""


@dataclass(frozen=True)
class StorageClass:
    """How storage is made: at once, or on the node of the first pod that wants it; and where it can be."""

    waits: bool = False
    topologies: tuple[Term, ...] = ()
    makes: bool = True  # it can make volumes, and does not only hand out those that are there


@dataclass(frozen=True)
class SchedulingContext:
    """What else decides where a pod can go. Without claims, nobody has looked, and they keep nothing off."""

    namespaces: Mapping[str, Labels] = field(default_factory=dict)
    claims: Mapping[tuple[str, str], Claim] | None = None
    volumes: Mapping[str, Volume] = field(default_factory=dict)
    classes: Mapping[str, StorageClass] = field(default_factory=dict)

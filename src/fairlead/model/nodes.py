"""Nodes and the pods on them, as the scheduler sees them. Amounts are integers in nano-units, as in `Quantity`."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

Amounts = Mapping[str, int]  # by Kubernetes resource name: cpu, memory, ephemeral-storage, nvidia.com/gpu, pods
Labels = Mapping[str, str]
Term = Mapping[str, Any]  # an affinity term as in a Kubernetes manifest


class Taint(NamedTuple):
    """A node taint."""

    key: str
    value: str
    effect: str  # NoSchedule, PreferNoSchedule or NoExecute

    def __str__(self) -> str:
        """The taint in kubectl notation."""
        return f"{self.key}{'=' * bool(self.value)}{self.value}:{self.effect}"


class HostPort(NamedTuple):
    """A host port that a pod uses."""

    protocol: str
    ip: str  # 0.0.0.0: all addresses of the node
    number: int


class SharedGpu(NamedTuple):
    """A GPU that pods can share. `memory` is in MiB, `slots` is the maximum number of pods."""

    id: str
    memory: int
    slots: int
    healthy: bool = True  # False: broken or cordoned, so it accepts no new pods
    kind: str = ""  # the product, as the device plugin reports it


class GpuAllocation(NamedTuple):
    """The part of a GPU that a pod uses: memory in MiB, or a percentage if only that is known."""

    device: str
    memory: int = 0
    percent: int = 0


# Slots save memory: a large cluster has tens of thousands of pods.
@dataclass(frozen=True, slots=True)
class ScheduledPod:
    """A pod on a node, with everything that affects the scheduling of other pods.

    `name` is None if the pod does not belong to a run, or belongs to a run that the caller may not see.
    """

    run_id: str  # empty if the pod does not belong to a run
    name: str | None
    amounts: Amounts
    project: str = ""
    namespace: str = ""
    labels: Labels = field(default_factory=dict)
    anti_affinity: tuple[Term, ...] = ()  # required terms only
    ports: tuple[HostPort, ...] = ()
    claims: tuple[str, ...] = ()  # names of PersistentVolumeClaims in its namespace
    gpu_allocations: tuple[GpuAllocation, ...] = ()
    terminating: bool = False  # being deleted: still uses resources, but topology spread ignores it


@lru_cache(maxsize=4096)  # comparing a string with itself is much faster than with an equal copy
def _intern(text: str) -> str:
    return text


class AntiAffinityTerm(NamedTuple):
    """A required anti-affinity term of a pod on a node. Terms with the same key match the same pods."""

    key: str
    pod: ScheduledPod
    term: Term

    @classmethod
    def of(cls, pod: ScheduledPod, term: Term) -> "AntiAffinityTerm":
        """A pod's term. The pod's labels are part of the key only if the term refers to them."""
        # The key is the repr, because a term is a dict and cannot be hashed.
        own_labels = pod.labels if term.get("matchLabelKeys") or term.get("mismatchLabelKeys") else None
        return cls(_intern(repr((term, pod.namespace, own_labels))), pod, term)


@dataclass(frozen=True)
class Node:
    """A node that executes runs."""

    name: str
    capacity: Amounts  # `allocatable` in Kubernetes: excludes the part reserved for the system
    labels: Labels = field(default_factory=dict)
    pods: tuple[ScheduledPod, ...] = ()
    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False  # cordoned
    devices: tuple[SharedGpu, ...] = ()  # only for nodes that publish a list of their shared GPUs

    @cached_property
    def anti_affinity_terms(self) -> tuple[AntiAffinityTerm, ...]:
        """The required anti-affinity terms of all pods on the node."""
        return tuple(AntiAffinityTerm.of(pod, term) for pod in self.pods for term in pod.anti_affinity)

    @cached_property
    def remaining(self) -> Amounts:
        """The free amount of each resource; negative if the node is overcommitted."""
        remaining = dict(self.capacity)
        for pod in self.pods:
            for resource, amount in pod.amounts.items():
                # Pods may use a resource that the node no longer has, for example if its device plugin was removed.
                remaining[resource] = remaining.get(resource, 0) - amount
        return remaining

    def free(self, resource: str) -> int:
        """The free amount of a resource; 0 if the node does not have it."""
        return self.remaining.get(resource, 0)


@dataclass(frozen=True)
class PersistentVolume:
    """A persistent volume, with the nodes that can access it."""

    name: str
    node_terms: tuple[Term, ...] | None = None  # one of them must match; None: accessible from every node
    labels: Labels = field(default_factory=dict)  # older volumes specify zone and region as labels
    claimed_by: tuple[str, str] | None = None  # namespace and name of the claim it is reserved for
    claim_uid: str = ""  # set if it is reserved for this exact claim, not for a later one with the same name
    size: int = 0
    modes: tuple[str, ...] = ()
    storage_class: str = ""
    block: bool = False
    available: bool = False
    attributes_class: str = ""
    terminating: bool = False


@dataclass(frozen=True)
class PersistentVolumeClaim:
    """A persistent volume claim, with its volume or with the class that provisions one."""

    volume: str = ""
    storage_class: str | None = None  # None: not set; "": only volumes without a class
    size: int = 0
    modes: tuple[str, ...] = ()
    selector: Mapping[str, Any] | None = None
    block: bool = False
    bound: bool = False  # binding has completed; a volume name alone does not mean that
    attributes_class: str = ""
    chosen_node: str = ""  # the node on which its volume is being provisioned
    lost: bool = False  # its volume was deleted
    terminating: bool = False
    uid: str = ""


@dataclass(frozen=True)
class StorageClass:
    """A storage class."""

    wait_for_first_consumer: bool = False  # volumes are bound when a pod is scheduled, so the pod determines their node
    topologies: tuple[Term, ...] = ()
    provisions: bool = True  # False: it only binds existing volumes


@dataclass(frozen=True)
class SchedulingContext:
    """Cluster state other than nodes that affects scheduling. Claims are not checked if `claims` is None (unknown)."""

    namespaces: Mapping[str, Labels] = field(default_factory=dict)
    claims: Mapping[tuple[str, str], PersistentVolumeClaim] | None = None
    volumes: Mapping[str, PersistentVolume] = field(default_factory=dict)
    classes: Mapping[str, StorageClass] = field(default_factory=dict)


@dataclass(frozen=True)
class QueueWorkload:
    """A workload that waits in a queue or uses part of its quota.

    `project` is empty for workloads from other platforms, whose names are not known.
    """

    name: str = ""
    project: str = ""
    usage: Mapping[str, int] = field(default_factory=dict)  # in nanos, by resource


@dataclass(frozen=True)
class QuotaUsage:
    """A queue's quota for one resource in one flavor, with its usage, in nanos."""

    resource: str
    flavor: str
    quota: int
    used: int


@dataclass(frozen=True)
class QueuePosition:
    """A run in a queue. `pool` is the object that has the quota (ClusterQueue), or empty if unknown.

    `message` is the scheduler's own explanation. `unavailable` says why some of this data could not be read.
    """

    pool: str = ""
    cohort: str = ""  # ClusterQueues in a cohort can borrow unused quota from each other
    strict: bool = False  # StrictFIFO: later workloads never overtake earlier ones
    requests: Mapping[str, int] = field(default_factory=dict)  # in nanos, by resource
    quotas: tuple[QuotaUsage, ...] = ()
    ahead: tuple[QueueWorkload, ...] = ()  # only while the run is pending
    admitted: tuple[QueueWorkload, ...] = ()
    pending: bool = False  # also False if Kueue has not yet created a workload for the run
    message: str = ""
    unavailable: str = ""

"""Nodes, pods and storage as the scheduler sees them, positions in queues, and what executors can do.

Amounts are integers in nano-units, as in `Quantity`.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any, Literal, NamedTuple, Self, TypeVar, get_args

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


@dataclass(frozen=True)
class GpuShare:
    """A fraction of one GPU's memory, in MiB or percent. `provider` is `kai` or `hami`."""

    provider: str
    memory: int = 0
    percent: int = 0


@dataclass(frozen=True)
class PodRequest:
    """The requirements that one pod has for its node."""

    amounts: Amounts
    node_selector: Labels = field(default_factory=dict)
    node_terms: tuple[Term, ...] | None = None  # one of them must match; None: every node matches
    tolerations: tuple[Term, ...] = ()
    node_name: str = ""
    ports: tuple[HostPort, ...] = ()
    namespace: str = ""
    labels: Labels = field(default_factory=dict)
    pod_affinity: tuple[Term, ...] = ()
    pod_anti_affinity: tuple[Term, ...] = ()
    topology_spread: tuple[Term, ...] = ()
    claims: tuple[str, ...] = ()
    gpu_share: GpuShare | None = None
    count: int = 1  # number of identical pods in the run


# Slots save memory: a large cluster has tens of thousands of pods.
@dataclass(frozen=True, slots=True)
class ScheduledPod:
    """A pod on a node, with everything that affects the scheduling of other pods.

    `name` is None if the pod does not belong to a run, or belongs to a run that the caller may not see.
    """

    run_id: str  # empty if the pod does not belong to a run
    name: str | None
    amounts: Amounts
    project_id: str = ""
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

    `project_id` is empty for workloads from other platforms, whose names are not known.
    """

    name: str = ""
    project_id: str = ""
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


BLOCK_SIZE = 64  # nodes per block; see `NodeTable.blocks`
MAX_STATIC = 64  # cached values that depend only on static parts of nodes; users choose some of the keys
MAX_PENDING = 64  # changes that each copy may apply itself; if there are more, the original applies them first

T = TypeVar("T")
Column = TypeVar("Column", list[Any], dict[str, int])


class TaintSet(NamedTuple):
    """The taints of a node and whether it is cordoned. Many nodes share the same set."""

    taints: tuple[Taint, ...]
    unschedulable: bool


def taint_set_of(node: Node) -> TaintSet:
    """The taints of a node and whether it is cordoned."""
    return TaintSet(node.taints, node.unschedulable)


class NodeTable:
    """Nodes by position, with one column for each property that filters use.

    `put` and `copy` take microseconds for any number of nodes: changes are applied when a column is read, and copies
    share their columns until one of them changes (copy on write).

    Most changes add or remove pods. Values that depend only on other parts of nodes, such as the column of a label, are
    static: they are computed once and shared by all copies until such a part changes.
    """

    def __init__(self, nodes: Iterable[Node] = (), context: SchedulingContext | None = None) -> None:
        self.context = context or SchedulingContext()
        self.noun = "run"  # how messages call what uses resources: run or pod
        self.can_see: Callable[[str], bool] = lambda _project_id: True  # whether the reader may see a project's runs
        self._nodes: list[Node] = []
        self._names: list[str] = []
        self._labels: list[Labels] = []
        self._taint_sets: list[TaintSet] = []
        self._capacity: dict[str, list[int]] = {}
        self._free: dict[str, list[int]] = {}
        self._blocks: list[object] = []
        self._positions: dict[str, int] = {}
        # Maps equal taint sets to the same object. Copies of the table share this mapping, because it only grows.
        self._known_taint_sets: dict[TaintSet, TaintSet] = {}
        # Changes that are not yet in the columns, by node name. None: the node is removed.
        self._pending: dict[str, Node | None] = {}
        self._prepared: dict[str, Any] = {}
        self._static: dict[tuple[str, str], Any] = {}  # shared by copies, and replaced when a static part changes
        self.indexes: dict[str, Any] = {}  # also shared by copies; see `scheduling.node_indexes`
        self._own: set[int] = set()  # `id()` of each column that no other table shares
        for node in nodes:
            self.put(node)

    def __len__(self) -> int:
        return len(self.nodes)

    def __iter__(self) -> Iterator[Node]:
        return iter(self.nodes)

    def put(self, node: Node) -> None:
        """Add a node, or replace the node with the same name."""
        # Only the last change is stored, because nodes change more often than tables are read.
        self._pending[node.name] = node
        self._prepared = {}

    def remove(self, name: str) -> None:
        """Remove a node. The last node moves to its position."""
        self._pending[name] = None
        self._prepared = {}

    def copy(self) -> Self:
        """A copy that is not affected by later changes to this table."""
        # Without this, each copy would apply the same changes and make its own copy of each changed column.
        if len(self._pending) > MAX_PENDING:
            self._apply_pending()
        other = copy(self)
        other._capacity, other._free, other._pending = self._capacity.copy(), self._free.copy(), self._pending.copy()
        # From now on both tables share all columns, so neither may change one in place.
        self._own, other._own, other._prepared = set(), set(), {}
        return other

    def without(self, run_id: str) -> Self:
        """A copy in which a run has ended."""
        other = self.copy()
        for node in self.nodes:
            if any(pod.run_id == run_id for pod in node.pods):
                other.put(replace(node, pods=tuple(pod for pod in node.pods if pod.run_id != run_id)))
        return other

    def visible_to(self, can_see: Callable[[str], bool]) -> Self:
        """A copy for a reader who may only see the runs of some projects, given by ID."""
        other = self.copy()
        other.can_see = can_see
        return other

    def visible_name(self, pod: ScheduledPod) -> str | None:
        """The name of a run or pod, or None if the reader may not see it."""
        return pod.name if pod.name is not None and self.can_see(pod.project_id) else None

    @property
    def nodes(self) -> list[Node]:
        """All nodes, by position."""
        self._apply_pending()
        return self._nodes

    @property
    def names(self) -> list[str]:
        """The names of all nodes, by position."""
        self._apply_pending()
        return self._names

    @property
    def labels(self) -> list[Labels]:
        """The labels of all nodes, by position."""
        self._apply_pending()
        return self._labels

    @property
    def taint_sets(self) -> list[TaintSet]:
        """The taint set of each node. Equal sets are the same object, so that callers can compare them by `id()`."""
        self._apply_pending()
        return self._taint_sets

    @property
    def all_taint_sets(self) -> list[TaintSet]:
        """The distinct taint sets."""
        return self._cached_static(
            ("taint sets", ""), lambda: list({id(taint_set): taint_set for taint_set in self.taint_sets}.values())
        )

    @property
    def has_devices(self) -> bool:
        """Whether a node publishes a list of its shared GPUs."""
        return self._cached_static(("devices", ""), lambda: any(node.devices for node in self.nodes))

    def values_of(self, key: str) -> list[str | None]:
        """The value of a label on each node, or None."""
        return self._cached_static(("label", key), lambda: [labels.get(key) for labels in self.labels])

    def domains_of(self, key: str) -> Set[str]:
        """The distinct values of a label."""
        return self._cached_static(
            ("domains", key), lambda: {value for value in self.values_of(key) if value is not None}
        )

    @property
    def blocks(self) -> list[object]:
        """One object for each block of nodes, which is replaced when a node in the block changes.

        If two tables have the same object for a block, they have the same nodes in it. Comparing all nodes instead
        takes 2 ms in a table of 20,000, because each comparison reads a node from memory.
        """
        self._apply_pending()
        return self._blocks

    @property
    def capacity(self) -> dict[str, list[int]]:
        """Allocatable amounts by resource."""
        self._apply_pending()
        return self._capacity

    @property
    def free(self) -> dict[str, list[int]]:
        """Free amounts by resource; negative if overcommitted."""
        self._apply_pending()
        return self._free

    def cached(self, key: str, prepare: Callable[[], T]) -> T:
        """The value that `prepare` computed from all nodes, cached until a node changes."""
        if key not in self._prepared:
            self._prepared[key] = prepare()
        value: T = self._prepared[key]
        return value

    def _cached_static(self, key: tuple[str, str], prepare: Callable[[], T]) -> T:
        self._apply_pending()
        static = self._static  # other threads may use copies with the same mapping
        try:
            value: T = static[key]
        except KeyError:
            if len(static) >= MAX_STATIC:
                static.clear()
            value = static[key] = prepare()
        return value

    def position_of(self, name: str) -> int | None:
        """The position of a node, or None."""
        self._apply_pending()
        return self._positions.get(name)

    def _apply_pending(self) -> None:
        if self._pending:
            pending, self._pending = self._pending, {}
            for name, node in pending.items():
                if node is None:
                    self._remove(name)
                else:
                    self._put(node)

    def _put(self, node: Node) -> None:
        taint_set = taint_set_of(node)
        taint_set = self._known_taint_sets.setdefault(taint_set, taint_set)
        if node.name not in self._positions:
            self._add(node, taint_set)
        position = self._positions[node.name]
        # Compared by value, because nodes report their status every few minutes, mostly without any change.
        before = self._labels[position], self._taint_sets[position], self._nodes[position].devices
        if before != (node.labels, taint_set, node.devices):
            self._static = {}
        self._mark(position)
        self._nodes = self._set(self._nodes, position, node)
        self._labels = self._set(self._labels, position, node.labels)
        self._taint_sets = self._set(self._taint_sets, position, taint_set)
        self._set_amounts(self._capacity, position, node.capacity)
        self._set_amounts(self._free, position, node.remaining)

    def _add(self, node: Node, taint_set: TaintSet) -> None:
        self._own_all()
        self._static = {}
        self._positions[node.name] = len(self._nodes)
        if len(self._nodes) % BLOCK_SIZE == 0:
            self._blocks.append(object())
        self._nodes.append(node)
        self._names.append(node.name)
        self._labels.append(node.labels)
        self._taint_sets.append(taint_set)
        for column in (*self._capacity.values(), *self._free.values()):
            column.append(0)

    def _remove(self, name: str) -> None:
        if name not in self._positions:
            return
        self._own_all()
        self._static = {}
        position = self._positions.pop(name)
        columns: tuple[list[Any], ...] = (self._nodes, self._names, self._labels, self._taint_sets)
        for column in (*columns, *self._capacity.values(), *self._free.values()):
            # Moving the last entry avoids shifting all entries after the removed node.
            last = column.pop()
            if position < len(column):
                column[position] = last
        if len(self._nodes) % BLOCK_SIZE == 0:
            self._blocks.pop()
        if position < len(self._names):
            self._positions[self._names[position]] = position
            self._mark(position)

    def _mark(self, position: int) -> None:
        self._blocks = self._writable(self._blocks)
        self._blocks[position // BLOCK_SIZE] = object()

    def _set(self, column: list[T], position: int, value: T) -> list[T]:
        # Most changes to a node add pods, so its labels and taints remain the same objects.
        if column[position] is value:
            return column
        column = self._writable(column)
        column[position] = value
        return column

    def _set_amounts(self, columns: dict[str, list[int]], position: int, amounts: Amounts) -> None:
        for name in amounts:
            if name not in columns:
                columns[name] = self._writable([0] * len(self._nodes))
        # This includes resources that the node no longer has: they become 0.
        for name, column in columns.items():
            if column[position] != (amount := amounts.get(name, 0)):
                columns[name] = self._writable(column)
                columns[name][position] = amount

    def _own_all(self) -> None:
        self._positions = self._writable(self._positions)
        self._nodes, self._names = self._writable(self._nodes), self._writable(self._names)
        self._blocks = self._writable(self._blocks)
        self._labels, self._taint_sets = self._writable(self._labels), self._writable(self._taint_sets)
        for columns in (self._capacity, self._free):
            for name, column in columns.items():
                columns[name] = self._writable(column)

    def _writable(self, column: Column) -> Column:
        """The column itself if no other table shares it, else a copy."""
        # The `id()` stays valid, because a table never drops a column that it owns.
        if id(column) in self._own:
            return column
        own = column.copy()
        self._own.add(id(own))
        return own


# Capabilities of executors

ProtectionName = Literal[
    "memory",
    "swap",
    "cpu",
    "process_count",
    "disk",
    "temporary_files",  # /tmp and /var/tmp
    "shared_memory",  # /dev/shm
    "files",
    "users",
    "processes",  # visibility of other processes, and signals to them
    "network",
    "system_calls",
]
PROTECTION_NAMES: tuple[ProtectionName, ...] = get_args(ProtectionName)


@dataclass(frozen=True)
class Protection:
    """One limit or boundary of runs, and how the machine enforces it. Without a mechanism it is not enforced."""

    name: ProtectionName
    mechanism: str = ""  # for example "cgroup v2", "Landlock" or "polling"; empty: not enforced
    gap: str = ""  # what is not covered, or why there is no stronger mechanism; empty: no gap

    @property
    def is_enforced(self) -> bool:
        """Whether the machine enforces this protection."""
        return bool(self.mechanism)


Protections = Mapping[ProtectionName, Protection]
Network = Literal["host", "none"]  # host: the network of the machine or pod; none: only a loopback interface


@dataclass(frozen=True)
class Capabilities:
    """What an executor can do. Planning rejects what it cannot do, and warns about what it does not enforce."""

    mount_error: str | None = None  # why runs cannot have mounts of their own; None if they can
    user_ids: bool = True  # whether runs get the user and group ID that they request
    more_groups: bool = True  # whether runs can be in a second group, for fs_group
    networks: tuple[Network, ...] = ("host",)
    # Only for the local executor: Kubernetes enforces limits and isolation itself.
    protections: Protections = field(default_factory=dict)


KUBERNETES = Capabilities()

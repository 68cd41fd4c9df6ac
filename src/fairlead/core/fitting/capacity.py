"""What a cluster has, what is taken of it and what is left: as a whole, by node group and by type of GPU."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from operator import itemgetter
from typing import NamedTuple

from fairlead.core.checking import GPU_RESOURCES
from fairlead.core.fitting import matching
from fairlead.core.fitting.pod_resources import PODS
from fairlead.core.fitting.node_tables import Grid, Kind
from fairlead.core.fitting.filtering import Sieve, place
from fairlead.model.nodes import Amounts, Labels, Node

# What the managed offers and the autoscalers call the nodes that they make alike; the first that is there counts.
GROUP_LABELS = (
    "eks.amazonaws.com/nodegroup",
    "alpha.eksctl.io/nodegroup-name",
    "cloud.google.com/gke-nodepool",
    "kubernetes.azure.com/agentpool",
    "karpenter.sh/nodepool",
    "doks.digitalocean.com/node-pool",
    "node.kubernetes.io/instance-type",
    "pool",
)
# What the programs that find GPUs say of them.
GPU_LABELS = (
    "nvidia.com/gpu.product",
    "amd.com/gpu.product-name",
    "beta.amd.com/gpu.product-name",
    "gpu.intel.com/product",
    "cloud.google.com/gke-accelerator",
    "karpenter.k8s.aws/instance-gpu-name",
)
MOST_PLACED = 10  # of pods that look at each other: for each of them 5,000 nodes with 30 pods take 50 ms
ALWAYS = ("cpu", "memory", "ephemeral-storage")  # told first, also where there is none
NO_GROUP = NO_GPU = ""


class Slot(NamedTuple):
    """The most of a resource that is free on one node, and which that is."""

    amount: int
    node: str


@dataclass(frozen=True)
class Pool:
    """Some nodes together. `free` is less than nothing where they are overdrawn.

    `closed`: how many of them take nothing new now. They are no part of `largest`, and of all else they are.
    """

    name: str
    nodes: int
    closed: int
    capacity: Amounts
    requested: Amounts
    free: Amounts
    largest: Mapping[str, Slot]


def sum_up(grid: Grid, name: str = "") -> Pool:
    """All nodes together."""
    return _Sums(grid).add_up(name, range(len(grid)))


def sum_up_groups(grid: Grid) -> list[Pool]:
    """The nodes by group, by name; those of no group first. None where no node is of any."""
    pools = _Sums(grid).by(map(name_group, grid.labels))
    return [] if [pool.name for pool in pools] == [NO_GROUP] else pools


def sum_up_gpu_types(grid: Grid, label: str = GPU_LABELS[0]) -> list[Pool]:
    """The nodes by type of GPU, by name; those without one first. `label`: where the cluster says the type."""
    gpus = [(name, grid.capacity[name]) for name in sorted(grid.capacity) if is_gpu(name)]
    unlabelled = (next((name for name, column in gpus if column[at]), NO_GPU) for at in range(len(grid)))
    places = tuple(dict.fromkeys((label, *GPU_LABELS)))
    return _Sums(grid).by(
        _read_label(labels, places) or name for labels, name in zip(grid.labels, unlabelled, strict=True)
    )


def count_more(sieve: Sieve, most: int) -> tuple[int, bool]:
    """For how many more such pods there is room now, up to so many; and whether there may be room for more.

    Pods that look at each other are placed one after the other, for which all nodes are looked at again: a few of them.
    """
    ask, fitting = sieve.ask, sieve.now
    if ask.near or ask.far or ask.spread or ask.claims:
        most = min(most, MOST_PLACED)
        found = sieve.count_now(most) if fitting else 0
    elif len(fitting) >= most:  # each of them takes one
        found = most
    elif sieve.checks or ask.ports:
        nodes = (sieve.grid.nodes[at] for at in fitting)
        found = sum(1 for _ in islice(chain.from_iterable(_fill(sieve, node) for node in nodes), most))
    else:
        found = sieve.count_now(most)
    return found, found >= most


def name_group(labels: Labels) -> str:
    """The group that a node is of."""
    return _read_label(labels, GROUP_LABELS)


def name_gpu_type(node: Node, label: str = GPU_LABELS[0]) -> str:
    """The type of a node's GPUs; the name of the resource where no label says it."""
    gpus = (name for name, amount in node.capacity.items() if amount and is_gpu(name))
    return _read_label(node.labels, (label, *GPU_LABELS)) or min(gpus, default=NO_GPU)


def is_gpu(resource: str) -> bool:
    """Whether a resource is GPUs, or parts of them, of whichever make."""
    return resource.endswith("/gpu") or resource.startswith(GPU_RESOURCES)


def is_closed(kind: Kind) -> bool:
    """Whether a node takes nothing new now: it is cordoned, or Kubernetes says that it is not well."""
    keeps_off = (taint for taint in kind.taints if taint.effect in matching.KEEPS_OFF)
    return kind.unschedulable or any(map(matching.is_passing, keeps_off))


def _fill(sieve: Sieve, node: Node) -> Iterator[Node]:
    """A node that takes a pod, with one of them after the other, until it takes no more."""
    ask = sieve.ask
    while True:
        node = place(ask, node)
        yield node
        full = any(amount > node.free(name) for name, amount in ask.amounts.items() if amount)
        taken = matching.find_taken_port(ask, node) is not None
        if full or taken or any(next(check(node), None) for check in sieve.checks):
            return


def _read_label(labels: Labels, places: Iterable[str]) -> str:
    """The first of some labels that is there, and says something."""
    for key in places:
        if labels.get(key):
            return labels[key]
    return ""


class _Sums:
    """The columns of a grid, to be added up for some nodes after the other."""

    def __init__(self, grid: Grid) -> None:
        self.grid = grid
        shut = {id(kind) for kind in set(grid.kinds) if is_closed(kind)}
        self.closed = {at for at, kind in enumerate(grid.kinds) if id(kind) in shut} if shut else set()
        self.resources = _sort(name for name in {*grid.capacity, *grid.free} if name in ALWAYS or self._is_there(name))

    def by(self, names: Iterable[str]) -> list[Pool]:
        """The nodes by a name that each of them has, in their order."""
        found: defaultdict[str, list[int]] = defaultdict(list)
        for at, name in enumerate(names):
            found[name].append(at)
        return [self.add_up(name, found[name]) for name in sorted(found)]

    def add_up(self, name: str, positions: Sequence[int]) -> Pool:
        """The nodes at some positions together."""
        take = _taker(positions)
        at_work = [at for at in positions if at not in self.closed] if self.closed else positions
        take_open = take if len(at_work) == len(positions) else _taker(at_work)
        has, free, largest = dict[str, int](), dict[str, int](), dict[str, Slot]()
        for resource in self.resources:
            had, left = self.grid.capacity.get(resource, ()), self.grid.free.get(resource, ())
            in_all, unused = sum(take(had)), sum(take(left))
            if not (in_all or unused or resource in ALWAYS):
                continue
            has[resource], free[resource] = in_all, unused
            open_to_all = take_open(left)
            if (most := max(open_to_all, default=0)) > 0:
                largest[resource] = Slot(most, self.grid.names[at_work[open_to_all.index(most)]])
        requested = {resource: has[resource] - free[resource] for resource in has}
        return Pool(name, len(positions), len(positions) - len(at_work), has, requested, free, largest)

    def _is_there(self, resource: str) -> bool:
        return any(any(columns.get(resource, ())) for columns in (self.grid.capacity, self.grid.free))


def _taker(positions: Sequence[int]) -> Callable[[Sequence[int]], Sequence[int]]:
    """Takes the values at some positions out of a column, in a third of the time that a loop needs."""
    if len(positions) < 2:
        return lambda column: [column[at] for at in positions if column]
    take = itemgetter(*positions)
    return lambda column: take(column) if column else ()


def _sort(resources: Iterable[str]) -> list[str]:
    """What every node has first, then GPUs and whatever else there is, and how many pods last."""
    order = {name: number for number, name in enumerate(ALWAYS)}
    return sorted(resources, key=lambda name: (order.get(name, len(order) + (name == PODS)), name))

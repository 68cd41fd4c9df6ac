"""Capacity: what each cluster has and what is free of it, and how many more of each compute resource fit now."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from fairlead.core import compute_catalog
from fairlead.core.fitting import capacity, wait_reasons
from fairlead.core.fitting.capacity import NO_GPU
from fairlead.core.fitting.filtering import NodeFilter
from fairlead.core.fitting.formatting import show_amount
from fairlead.core.fitting.node_tables import NodeTable
from fairlead.core.fitting.pod_requests import PodRequest
from fairlead.core.scope_tree import find_cluster
from fairlead.errors import Unavailable
from fairlead.model.nodes import Amounts
from fairlead.model.plans import Violation
from fairlead.model.queries import Condition
from fairlead.model.records import ComputeResourceRecord
from fairlead.model.requests import RunRequest
from fairlead.model.roles import Permission
from fairlead.model.scopes import Cluster
from fairlead.ports import Executors, Generation
from fairlead.services.calls import Call
from fairlead.services.executions import show_nodes
from fairlead.services.snapshots import Snapshots, compute_resource_of
from fairlead.services.unit_of_work import UnitOfWork, UnitOfWorkFactory

MOST_COUNTED = 1000
MOST_KEPT = 5000
NOTHING_ASKED = RunRequest.model_validate({"function": "offer"})

Asked = PodRequest | Violation  # what a compute resource asks for, or why nobody can use it


@dataclass(frozen=True)
class Slot:
    """The most of a resource that is free on one node, and which that is."""

    amount: str
    node: str


@dataclass(frozen=True)
class Pool:
    """Some nodes together. `closed`: how many of them take nothing new now, and are no part of `largest`."""

    name: str
    nodes: int
    unavailable: int
    capacity: dict[str, str]
    requested: dict[str, str]
    free: dict[str, str]
    largest: dict[str, Slot]


@dataclass(frozen=True)
class ComputeResourceRoom:
    """A compute resource, and how many more runs of one pod that ask for it alone would be placed now.

    `fits_now` is null where nobody can tell, and with `more` there is room for more than were counted. `message`: why
    none fits.
    """

    name: str
    scope: str
    workload_types: list[str] | None
    fits_now: int | None
    more: bool = False
    message: str = ""


@dataclass(frozen=True)
class Capacity:
    """A cluster: all of its nodes, those of each group and of each type of GPU, and what fits there now.

    Where its nodes cannot be told now it is not `reachable`, and `trouble` says why.
    """

    cluster: str
    reachable: bool
    error: str
    autoscaled: bool
    total: Pool | None = None
    groups: list[Pool] = field(default_factory=list)
    gpu_types: list[Pool] = field(default_factory=list)
    compute_resources: list[ComputeResourceRoom] = field(default_factory=list)


@dataclass(frozen=True)
class _Look:
    """What is known of a cluster, before anything is counted."""

    cluster: Cluster
    table: NodeTable | None
    error: str
    compute_catalog: Sequence[tuple[ComputeResourceRecord, Asked]]


class CapacityReports:
    """The use case of looking at what is free."""

    def __init__(self, units: UnitOfWorkFactory, executors: Executors, snapshots: Snapshots) -> None:
        self.units, self.executors, self.snapshots = units, executors, snapshots
        self._kept: tuple[Generation | None, dict[tuple[str, str], Asked]] = (None, {})

    def show(self, call: Call, project: str | None = None, cluster: str | None = None) -> list[Capacity]:
        """The clusters that the caller sees, or that of a project, with the compute resources that reach it."""
        with self.units.reading(call) as unit:
            scope = None if project is None else f"project/{project}"
            looks = [self._look(unit, each, scope) for each in _find_clusters(unit, scope, cluster)]
        return [_tell(look) for look in looks]

    def _look(self, unit: UnitOfWork, cluster: Cluster, project: str | None) -> _Look:
        table, error = self._see(unit, cluster)
        found: list[tuple[ComputeResourceRecord, Asked]] = []
        for scope, records in _find_offers(unit, cluster, project).items():
            asks = self._ask(unit, scope, records)
            found += [(record, asks[scope, record.name]) for record in records]
        return _Look(cluster, table, error, sorted(found, key=lambda offer: offer[0].name))

    def _see(self, unit: UnitOfWork, cluster: Cluster) -> tuple[NodeTable | None, str]:
        """The nodes of a cluster, or why they cannot be told."""
        executor = self.executors.find(cluster)
        governs = unit.permissions.may(
            Permission.ADMINISTER, cluster.scope
        )  # what went wrong may tell of the server's insides
        if executor is None:
            known = self.executors.connection_error(cluster) if governs else ""
            return None, known or f"no server executes the runs of {cluster.scope} yet"
        try:
            return show_nodes(unit, executor), ""
        except Unavailable as error:
            return None, str(error) if governs else f"the nodes of {cluster.scope} cannot be seen now"

    def _ask(
        self, unit: UnitOfWork, scope: str, records: Sequence[ComputeResourceRecord]
    ) -> Mapping[tuple[str, str], Asked]:
        """What each compute resource asks for at a scope: planned once for as long as nothing of it is changed."""
        generation, asks = self._kept  # one attribute, so that no thread sees half of a change
        if generation != unit.tx.generation or len(asks) > MOST_KEPT:
            asks = {}
            self._kept = (unit.tx.generation, asks)
        unknown = [record for record in records if (scope, record.name) not in asks]
        if unknown:
            known = {record.name: compute_resource_of(record) for record in unknown}
            context = self.snapshots.load(unit, scope, NOTHING_ASKED)
            snapshot = replace(context.snapshot, compute_resources=known)
            asks |= {
                (scope, name): compute_catalog.find_pod_request(resource, snapshot) for name, resource in known.items()
            }
        return asks


def _find_clusters(unit: UnitOfWork, project: str | None, name: str | None) -> list[Cluster]:
    """The clusters that are asked about, by name. A project has one, or none."""
    known = unit.organization.clusters
    if project is not None:
        unit.require(Permission.VIEW, project, project)
        its = find_cluster(known.values(), unit.organization.tree.path(project))
        found = [its] if its.scope in known else []
    else:
        found = [cluster for scope, cluster in known.items() if unit.permissions.sees(scope)]
    if name is not None:
        unit.require(Permission.VIEW, f"cluster/{name}", f"cluster/{name}")
    return sorted((each for each in found if name in (None, each.name)), key=lambda each: each.name)


def _find_offers(unit: UnitOfWork, cluster: Cluster, project: str | None) -> dict[str, list[ComputeResourceRecord]]:
    """The compute resources that can be chosen, by the scope at which they are tried out.

    That is the project. Without one it is the cluster, or whatever is below it that a compute resource is for.
    """
    path, current = unit.organization.tree.path, Condition("archived", "=", False)
    if project is not None:
        return {project: unit.tx.find(ComputeResourceRecord, Condition("scope", "in", tuple(path(project))), current)}
    found: dict[str, list[ComputeResourceRecord]] = {}
    above = path(cluster.scope)
    for record in unit.tx.find(ComputeResourceRecord, *unit.in_sight(), current):
        if record.scope in above:
            found.setdefault(cluster.scope, []).append(record)
        elif cluster.scope in path(record.scope):
            found.setdefault(record.scope, []).append(record)
    return found


def _tell(look: _Look) -> Capacity:
    cluster, table = look.cluster, look.table
    offered = [_count(record, asked, table) for record, asked in look.compute_catalog]
    if table is None:
        return Capacity(cluster.name, False, look.error, cluster.autoscaled, compute_resources=offered)
    types = capacity.capacity_by_gpu_type(table, cluster.gpu_product_label)
    return Capacity(
        cluster=cluster.name,
        reachable=True,
        error="",
        autoscaled=cluster.autoscaled,
        total=_show(capacity.total_capacity(table)),
        groups=[_show(pool) for pool in capacity.capacity_by_group(table)],
        gpu_types=[_show(pool) for pool in types if pool.name != NO_GPU],
        compute_resources=offered,
    )


def _count(record: ComputeResourceRecord, asked: Asked, table: NodeTable | None) -> ComputeResourceRoom:
    offer = ComputeResourceRoom(record.name, record.scope, record.workload_types, None)
    if isinstance(asked, Violation):
        return replace(offer, fits_now=0, message=asked.message)
    if table is None:
        return offer
    node_filter = NodeFilter(asked, table)
    fits, more = capacity.count_additional(node_filter, MOST_COUNTED)
    return replace(offer, fits_now=fits, more=more, message="" if fits else wait_reasons.explain_no_fit(node_filter))


def _show(pool: capacity.NodePool) -> Pool:
    return Pool(
        name=pool.name,
        nodes=pool.nodes,
        unavailable=pool.unavailable,
        capacity=_show_amounts(pool.capacity),
        requested=_show_amounts(pool.requested),
        free=_show_amounts(pool.free),
        largest={name: Slot(show_amount(name, slot.amount), slot.node) for name, slot in pool.largest.items()},
    )


def _show_amounts(amounts: Amounts) -> dict[str, str]:
    """Amounts as people write them; of what is overdrawn, nothing is free."""
    return {name: show_amount(name, max(amount, 0)) for name, amount in amounts.items()}

"""Capacity of clusters: total, requested and free resources, and how many more runs could start now."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from fairlead.errors import Unavailable
from fairlead.model.columns import Condition
from fairlead.model.nodes import Amounts, NodeTable, PodRequest
from fairlead.model.plans import Violation
from fairlead.model.records import ComputeResourceRecord
from fairlead.model.requests import RunRequest
from fairlead.model.scopes import Cluster, Permission
from fairlead.planning import capacity, compute_catalog
from fairlead.planning.capacity import NO_GPU
from fairlead.ports import Executors, Generation
from fairlead.scheduling import evaluation
from fairlead.scheduling.filters import NodeFilter
from fairlead.scheduling.reasons import show_amount
from fairlead.services.catalog.snapshots import Snapshots, compute_resource_of
from fairlead.services.runs.executions import load_visible_nodes
from fairlead.services.runs.queue import Reservation, load_reservation
from fairlead.services.transactions.unit_of_work import Call, UnitOfWork, UnitOfWorkFactory

MAX_COUNTED = 1000  # counting stops here and sets `more`
MAX_CACHED = 5000  # pod requests; beyond this, the cache is emptied
EMPTY_REQUEST = RunRequest.model_validate({"function": "placeholder"})  # to load a scope's snapshot

PodRequestOrViolation = PodRequest | Violation  # a compute resource's pod request, or why it cannot be used


@dataclass(frozen=True)
class Slot:
    """The largest free amount of a resource on a single node, and the name of that node."""

    amount: str
    node: str


@dataclass(frozen=True)
class Pool:
    """Totals for a group of nodes. `unavailable` nodes accept no new pods and are ignored in `largest`."""

    name: str
    nodes: int
    unavailable: int
    capacity: dict[str, str]
    requested: dict[str, str]
    free: dict[str, str]
    largest: dict[str, Slot]


@dataclass(frozen=True)
class ComputeResourceCapacity:
    """How many more single-pod runs could start now on a compute resource.

    `fits_now` is null if the nodes are unknown. `more` means that there is room for more runs than were counted.
    `message` says why no run fits.
    """

    name: str
    scope: str
    workload_types: list[str] | None
    fits_now: int | None
    more: bool = False
    message: str = ""


@dataclass(frozen=True)
class Capacity:
    """Capacity of a cluster in total, by node group and by GPU type, and how many more runs fit.

    If its nodes are unknown, `reachable` is false and `error` contains the reason.
    """

    cluster: str
    reachable: bool
    error: str
    autoscaled: bool
    total: Pool | None = None
    groups: list[Pool] = field(default_factory=list)
    gpu_types: list[Pool] = field(default_factory=list)
    compute_resources: list[ComputeResourceCapacity] = field(default_factory=list)


@dataclass(frozen=True)
class _ClusterNodes:
    """The nodes and compute resources of a cluster."""

    cluster: Cluster
    table: NodeTable | None
    reservation: Reservation | None
    error: str
    compute_resources: Sequence[tuple[ComputeResourceRecord, PodRequestOrViolation]]


class CapacityReports:
    """Reports the capacity of clusters."""

    def __init__(self, units: UnitOfWorkFactory, executors: Executors, snapshots: Snapshots) -> None:
        self.units, self.executors, self.snapshots = units, executors, snapshots
        self._cache: tuple[Generation | None, dict[tuple[str, str], PodRequestOrViolation]] = (None, {})

    def show(self, call: Call, project: str | None = None, cluster: str | None = None) -> list[Capacity]:
        """Report the capacity of all visible clusters, one cluster, or a project's cluster."""
        with self.units.reading(call) as unit:
            scope = None if project is None else f"project/{project}"
            clusters = [self._load_cluster(unit, each, scope) for each in _find_clusters(unit, scope, cluster)]
        # Counting comes after the transaction, because it takes a long time for large clusters.
        return [_to_capacity(each) for each in clusters]

    def _load_cluster(self, unit: UnitOfWork, cluster: Cluster, project: str | None) -> _ClusterNodes:
        table, error = self._load_nodes(unit, cluster)
        reservation = load_reservation(unit, self.executors, self.executors.find(cluster))
        resources: list[tuple[ComputeResourceRecord, PodRequestOrViolation]] = []
        for scope, records in _find_compute_resources(unit, cluster, project).items():
            pod_requests = self._load_pod_requests(unit, scope, records)
            resources += [(record, pod_requests[scope, record.name]) for record in records]
        return _ClusterNodes(cluster, table, reservation, error, sorted(resources, key=lambda item: item[0].name))

    def _load_nodes(self, unit: UnitOfWork, cluster: Cluster) -> tuple[NodeTable | None, str]:
        """Return the nodes of a cluster, or the reason why they are unknown."""
        executor = self.executors.find(cluster)
        # Errors may reveal server internals, so only administrators see them.
        administers = unit.permissions.may(Permission.ADMINISTER, cluster.scope)
        if executor is None:
            reason = self.executors.connection_error(cluster) if administers else ""
            return None, reason or f"no server executes the runs of {cluster.scope} yet"
        try:
            return load_visible_nodes(unit, executor), ""
        except Unavailable as error:
            return None, str(error) if administers else f"the nodes of {cluster.scope} are currently unavailable"

    def _load_pod_requests(
        self, unit: UnitOfWork, scope: str, records: Sequence[ComputeResourceRecord]
    ) -> Mapping[tuple[str, str], PodRequestOrViolation]:
        """Return the pod request of each compute resource in a scope, cached until the configuration changes."""
        generation, requests = self._cache  # a single attribute, so that threads read a consistent pair
        if generation != unit.tx.generation or len(requests) > MAX_CACHED:
            requests = {}
            self._cache = (unit.tx.generation, requests)
        missing = [record for record in records if (scope, record.name) not in requests]
        if missing:
            resources = {record.name: compute_resource_of(record) for record in missing}
            context = self.snapshots.load(unit, scope, EMPTY_REQUEST)
            snapshot = replace(context.snapshot, compute_resources=resources)
            requests |= {
                (scope, name): compute_catalog.find_pod_request(resource, snapshot)
                for name, resource in resources.items()
            }
        return requests


def _find_clusters(unit: UnitOfWork, project: str | None, name: str | None) -> list[Cluster]:
    """Return the requested clusters, sorted by name. A project has one, unless the platform has no clusters."""
    if project is not None:
        unit.require(Permission.VIEW, project, project)
        own_cluster = unit.organization.cluster_of(project)
        clusters = [] if own_cluster is None else [own_cluster]
    else:
        clusters = [cluster for scope, cluster in unit.organization.clusters.items() if unit.permissions.sees(scope)]
    if name is not None:
        unit.require(Permission.VIEW, f"cluster/{name}", f"cluster/{name}")
    return sorted((each for each in clusters if name in (None, each.name)), key=lambda each: each.name)


def _find_compute_resources(
    unit: UnitOfWork, cluster: Cluster, project: str | None
) -> dict[str, list[ComputeResourceRecord]]:
    """Return the available compute resources, grouped by the scope in which their runs are planned.

    That scope is the project, if one is given. Otherwise it is the cluster, or the compute resource's own scope if
    that is inside the cluster.
    """
    path, current = unit.organization.tree.path, Condition("archived", "=", False)
    if project is not None:
        return {project: unit.tx.find(ComputeResourceRecord, Condition("scope", "in", tuple(path(project))), current)}
    resources: dict[str, list[ComputeResourceRecord]] = {}
    above = path(cluster.scope)
    for record in unit.tx.find(ComputeResourceRecord, *unit.visible_scopes(), current):
        if record.scope in above:
            resources.setdefault(cluster.scope, []).append(record)
        elif cluster.scope in path(record.scope):
            resources.setdefault(record.scope, []).append(record)
    return resources


def _to_capacity(nodes: _ClusterNodes) -> Capacity:
    cluster, table = nodes.cluster, nodes.table
    resources = [
        _count_fitting(record, requested, table, nodes.reservation) for record, requested in nodes.compute_resources
    ]
    if table is None:
        return Capacity(cluster.name, False, nodes.error, cluster.autoscaled, compute_resources=resources)
    types = capacity.capacity_by_gpu_type(table, cluster.gpu_product_label)
    return Capacity(
        cluster=cluster.name,
        reachable=True,
        error="",
        autoscaled=cluster.autoscaled,
        total=_to_pool(capacity.total_capacity(table)),
        groups=[_to_pool(pool) for pool in capacity.capacity_by_group(table)],
        gpu_types=[_to_pool(pool) for pool in types if pool.name != NO_GPU],
        compute_resources=resources,
    )


def _count_fitting(
    record: ComputeResourceRecord,
    requested: PodRequestOrViolation,
    table: NodeTable | None,
    reservation: Reservation | None,
) -> ComputeResourceCapacity:
    result = ComputeResourceCapacity(record.name, record.scope, record.workload_types, None)
    if isinstance(requested, Violation):
        return replace(result, fits_now=0, message=requested.message)
    if table is None:
        return result
    left = table if reservation is None else reservation.left(table)
    fits, more = capacity.count_additional(NodeFilter(requested, left), MAX_COUNTED)
    if fits:
        return replace(result, fits_now=fits, more=more)
    conflict = None if reservation is None else reservation.find_conflict(requested, table)
    return replace(result, fits_now=0, message=conflict or evaluation.explain_no_fit(NodeFilter(requested, table)))


def _to_pool(pool: capacity.NodePool) -> Pool:
    return Pool(
        name=pool.name,
        nodes=pool.nodes,
        unavailable=pool.unavailable,
        capacity=_format_amounts(pool.capacity),
        requested=_format_amounts(pool.requested),
        free=_format_amounts(pool.free),
        largest={name: Slot(show_amount(name, slot.amount), slot.node) for name, slot in pool.largest.items()},
    )


def _format_amounts(amounts: Amounts) -> dict[str, str]:
    """Format amounts. The free amounts of overcommitted nodes are negative and shown as 0."""
    return {name: show_amount(name, max(amount, 0)) for name, amount in amounts.items()}

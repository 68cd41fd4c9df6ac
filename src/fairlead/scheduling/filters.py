"""Finds the nodes that can run a pod, now or when they are empty, from the columns of a node table."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from heapq import nlargest

from fairlead.model.nodes import Node, NodeTable, PodRequest, ScheduledPod
from fairlead.scheduling import gpu_sharing, pod_affinity, selectors, volumes
from fairlead.scheduling.reasons import Cause, DomainCheck, NodeCheck

MAX_PODS_PER_NODE = 10_000  # more than any node allows; the kubelet's default is 110
MAX_STARTS = 10  # nodes to try for the first pod, which determines where the others can go
# How many pods are placed one by one to count how many fit. Each placement filters all nodes again, so
# fewer pods are placed if there are more nodes: within the first two bounds, pods x nodes <= MAX_NODES_SCANNED.
MIN_TRIED, MAX_TRIED, MAX_NODES_SCANNED = 5, 50, 50_000

Columns = dict[str, list[int]]


@dataclass(frozen=True)
class NodeFilter:
    """Filters nodes for one pod. Each property lists the positions of the nodes that pass a step."""

    pod_request: PodRequest
    table: NodeTable

    @cached_property
    def checks(self) -> tuple[NodeCheck, ...]:
        """Checks that need more than the columns of a node: other pods, volumes and shared GPUs."""
        return *(domain_check.check for domain_check in self._about_pods), *self._about_node

    @cached_property
    def _about_pods(self) -> list[DomainCheck]:
        pod_request, table = self.pod_request, self.table
        about = (
            pod_request.pod_affinity,
            pod_request.pod_anti_affinity,
            pod_request.topology_spread,
            pod_request.labels,
            pod_request.namespace,
        )
        # The text is the key, because terms are dicts, which are not hashable. The check needs no other fields.
        key = repr((*about, pod_request.node_selector, pod_request.node_terms, pod_request.tolerations))
        # Cached: the check goes through all pods in the cluster, and suggestions filter the same table many times.
        return table.cached(key, lambda: pod_affinity.prepare_affinity_checks(pod_request, table))

    @cached_property
    def _about_node(self) -> list[NodeCheck]:
        prepared = (
            volumes.prepare_volume_check(self.pod_request, self.table),
            gpu_sharing.prepare_gpu_check(self.pod_request, self.table),
        )
        return [check for check in prepared if check is not None]

    def group_by_cause(self, positions: Sequence[int]) -> dict[tuple[Cause, str], set[int]]:
        """The positions of nodes that the checks exclude, by cause and path."""
        groups: defaultdict[tuple[Cause, str], set[int]] = defaultdict(set)
        for domain_check in self._about_pods:
            for cause, excluded in domain_check.group(self.table, positions):
                groups[cause, domain_check.path] |= excluded
        for check in self._about_node:
            for at in positions:
                for reason in check(self.table.nodes[at]):
                    groups[reason.cause, reason.path].add(at)
        return {cause: excluded for cause, excluded in groups.items() if excluded}

    @cached_property
    def label_matches(self) -> Sequence[int]:
        """Nodes that match the node name, node selector and node affinity."""
        matching = selectors.match_nodes(self.pod_request, self.table)
        if not self.pod_request.node_name:
            return matching
        position = self.table.position_of(self.pod_request.node_name)
        return [position] if position is not None and position in matching else []

    @cached_property
    def schedulable(self) -> Sequence[int]:
        """Matching nodes that are not cordoned and whose taints are all tolerated."""
        pod_request = self.pod_request
        return selectors.without_taint_sets(
            lambda taint_set: (
                selectors.is_cordoned(pod_request, taint_set) or bool(selectors.find_taints(pod_request, taint_set))
            ),
            self.table,
            self.label_matches,
        )

    @cached_property
    def with_free_resources(self) -> Sequence[int]:
        """Schedulable nodes with enough free resources."""
        return self._having(self.schedulable, self.table.free)

    @cached_property
    def feasible(self) -> Sequence[int]:
        """Nodes that can run the pod now."""
        nodes = self.table.nodes
        positions = self.with_free_resources
        for domain_check in self._about_pods:
            positions = domain_check.keep(self.table, positions)
        # The other checks are slow, so they only look at nodes that passed the column comparisons.
        if self.pod_request.ports:
            positions = [at for at in positions if selectors.find_taken_port(self.pod_request, nodes[at]) is None]
        for check in self._about_node:
            # Checks are generators: one reason is enough here, so the messages of the others are not formatted.
            positions = [at for at in positions if next(check(nodes[at]), None) is None]
        return positions

    @cached_property
    def large_enough(self) -> Sequence[int]:
        """Matching nodes with enough allocatable resources."""
        return self._having(self.label_matches, self.table.capacity)

    @cached_property
    def feasible_when_empty(self) -> Sequence[int]:
        """Nodes that could run the pod if they were empty and healthy."""
        pod_request, nodes = self.pod_request, self.table.nodes
        positions = selectors.without_taint_sets(
            # A cordon is temporary, so it is not checked here.
            lambda taint_set: not all(map(selectors.is_temporary, selectors.find_taints(pod_request, taint_set))),
            self.table,
            self.label_matches,
        )
        positions = self._having(positions, self.table.capacity)
        for domain_check in self._about_pods:
            positions = domain_check.keep(self.table, positions, when_empty=True)
        for check in self._about_node:
            positions = [at for at in positions if not any(reason.lasts for reason in check(nodes[at]))]
        return positions

    def count_fitting(self, limit: int) -> int:
        """How many identical pods fit now, up to `limit`.

        Pods that affect each other are placed one by one. This is slow, so only the first few are placed.
        """
        # Based on amounts alone, so this is only an upper bound if the pods also affect each other.
        room = (
            min(len(self.feasible), limit)
            if self.pod_request.ports
            else self._count(self.feasible, self.table.free, limit)
        )
        if not self._depend():
            return room
        room = self._bound(room, self.feasible)
        tries = max(MIN_TRIED, min(MAX_TRIED, MAX_NODES_SCANNED // max(len(self.table), 1)))
        placed, wanted = 0, min(room, tries)
        for start in self._find_starts(tries):
            placed = max(placed, self._place(start, wanted))
            if placed == wanted:
                break
        # If all pods that were tried fit, the others are assumed to fit as far as amounts allow.
        return room if placed == tries else placed

    def count_fitting_when_empty(self, limit: int) -> int:
        """How many identical pods would fit on empty nodes, up to `limit`."""
        if not (self.checks or self.pod_request.ports):
            return self._count(self.feasible_when_empty, self.table.capacity, limit)
        each = (self._count_on_empty(at) for at in self.feasible_when_empty)
        return self._bound(min(sum(each), limit), self.feasible_when_empty)

    def _count_on_empty(self, at: int) -> int:
        if self.pod_request.ports:
            return 1  # a second pod would need the same host port
        room = self._count([at], self.table.capacity, MAX_PODS_PER_NODE)
        gpu_shares = gpu_sharing.count_when_empty(self.pod_request, self.table.nodes[at])
        return room if gpu_shares is None else min(room, gpu_shares)

    def _depend(self) -> bool:
        """Whether a placed pod restricts where the next one can go, apart from the resources it uses."""
        pod_request = self.pod_request
        return (
            bool(
                pod_request.pod_affinity
                or pod_request.pod_anti_affinity
                or pod_request.topology_spread
                or pod_request.claims
            )
            or gpu_sharing.prepare_gpu_check(pod_request, self.table) is not None
        )

    def _bound(self, room: int, positions: Sequence[int]) -> int:
        """Limit a count to the number of topology domains if the pods exclude each other."""
        domains = pod_affinity.count_domains(self.pod_request, self.table, positions)
        return room if domains is None else min(room, domains)

    def _find_starts(self, tries: int) -> Sequence[int]:
        """Nodes to try for the first pod: one per affinity topology domain, those with the most room first."""
        keys, labels, free = (
            [term["topologyKey"] for term in self.pod_request.pod_affinity],
            self.table.labels,
            self.table.free,
        )
        # Pods with affinity to each other all go to the first pod's domain, so one node per domain is enough.
        domains: dict[tuple[str | None, ...], list[int]] = {}
        for at in self.feasible:
            domains.setdefault(tuple(labels[at].get(key) for key in keys), []).append(at)
        roomiest = nlargest(
            min(MAX_STARTS, tries),
            domains.values(),
            key=lambda positions: self._count(positions, free, MAX_PODS_PER_NODE),
        )
        return [positions[0] for positions in roomiest]

    def _place(self, start: int, limit: int) -> int:
        """How many pods fit one after the other if the first one is placed on `start`."""
        table, placed = self.table.copy(), 0
        fitting: Sequence[int] = [start]
        while placed < limit and fitting:
            table.put(place(self.pod_request, table.nodes[fitting[0]]))
            placed += 1
            fitting = NodeFilter(self.pod_request, table).feasible if placed < limit else []
        return placed

    def _having(self, positions: Sequence[int], columns: Columns) -> Sequence[int]:
        for resource, amount in self.pod_request.amounts.items():
            # kube-scheduler ignores a request of 0, even if the node is overcommitted or lacks the resource.
            if amount:
                column = columns.get(resource)
                positions = [] if column is None else [at for at in positions if column[at] >= amount]
        return positions

    def _count(self, positions: Sequence[int], columns: Columns, limit: int) -> int:
        # Every position has passed `_having`, so if there are any positions, each requested resource has a column.
        required = [
            (columns[resource], amount) for resource, amount in self.pod_request.amounts.items() if amount and positions
        ]
        if not required:
            return limit if positions else 0
        return min(sum(min(column[at] // amount for column, amount in required) for at in positions), limit)


def place(pod_request: PodRequest, node: Node, run_id: str = "", name: str | None = None) -> Node:
    """A copy of the node with the pod placed on it."""
    pod = ScheduledPod(
        run_id,
        name,
        pod_request.amounts,
        namespace=pod_request.namespace,
        labels=pod_request.labels,
        anti_affinity=pod_request.pod_anti_affinity,
        ports=pod_request.ports,
        claims=pod_request.claims,
        gpu_allocations=gpu_sharing.allocate(pod_request, node),
    )
    return replace(node, pods=(*node.pods, pod))

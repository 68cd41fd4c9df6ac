"""Which nodes take a pod, now and at their best: all of them at once, by columns."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from heapq import nlargest

from fairlead.core.fitting import gpu_sharing, matching, pod_affinity, volumes
from fairlead.core.fitting.node_tables import NodeTable, TaintSet
from fairlead.core.fitting.pod_requests import PodRequest
from fairlead.core.fitting.reasons import NodeCheck
from fairlead.model.nodes import Holding, Node

MOST_ON_ONE = 10_000
MOST_STARTS = 10  # places that are tried for the first of them
# Pods that are placed one after the other, to see for how many there is room: fewer where there are many nodes.
LEAST_TRIED, MOST_TRIED, MOST_LOOKED_AT = 5, 50, 50_000

Columns = dict[str, list[int]]


@dataclass(frozen=True)
class NodeFilter:
    """A pod and the nodes that it is held against. Each step leaves the positions of those that pass it."""

    pod_request: PodRequest
    table: NodeTable

    @cached_property
    def checks(self) -> tuple[NodeCheck, ...]:
        """The rules that look beyond one node's own columns, where the pod is concerned by any."""
        return tuple(check for check in (self._about_pods, *self._about_node) if check is not None)

    @cached_property
    def _about_pods(self) -> NodeCheck | None:
        pod_request, table = self.pod_request, self.table
        about = (
            pod_request.pod_affinity,
            pod_request.pod_anti_affinity,
            pod_request.topology_spread,
            pod_request.labels,
            pod_request.namespace,
        )
        key = repr((*about, pod_request.node_selector, pod_request.node_terms, pod_request.tolerations))
        return table.cached(key, lambda: pod_affinity.prepare(pod_request, table))

    @cached_property
    def _about_node(self) -> tuple[NodeCheck | None, ...]:
        return volumes.prepare(self.pod_request, self.table), gpu_sharing.prepare(self.pod_request, self.table)

    @property
    def _lasting(self) -> list[NodeCheck]:
        """The checks of which a reason may last: other pods go, unlike the lack of a label to find them by."""
        about_pods = self._about_pods if self.pod_request.pod_affinity or self.pod_request.topology_spread else None
        return [check for check in (about_pods, *self._about_node) if check is not None]

    @cached_property
    def label_matches(self) -> list[int]:
        """Nodes with the name and the labels that are asked for."""
        labels, names = self.table.labels, self.table.names
        left: Sequence[int] = range(len(names))
        if self.pod_request.node_name:
            found = self.table.position_of(self.pod_request.node_name)
            left = [] if found is None else [found]
        suits = matching.compile_node_matcher(self.pod_request)
        return list(left) if suits is None else [at for at in left if suits(labels[at], names[at])]

    @cached_property
    def schedulable(self) -> list[int]:
        """Of these, those that take it in as they are now: neither cordoned nor tainted."""
        shut = {
            taint_set: matching.is_cordoned(self.pod_request, taint_set)
            or bool(matching.find_taints(self.pod_request, taint_set))
            for taint_set in self.table.all_taint_sets
        }
        return self._leave_out(shut)

    @cached_property
    def with_free_resources(self) -> list[int]:
        """Of these, those with all amounts free."""
        return self._having(self.schedulable, self.table.free)

    @cached_property
    def feasible(self) -> list[int]:
        """Of these, those that nothing else keeps it off: the nodes that take it now."""
        nodes = self.table.nodes
        left = self.with_free_resources
        if self.pod_request.ports:
            left = [at for at in left if matching.find_taken_port(self.pod_request, nodes[at]) is None]
        for check in self.checks:
            left = [at for at in left if next(check(nodes[at]), None) is None]
        return left

    @cached_property
    def large_enough(self) -> list[int]:
        """Nodes that suit, and have all amounts if nothing else is there."""
        return self._having(self.label_matches, self.table.capacity)

    @cached_property
    def feasible_when_empty(self) -> list[int]:
        """The nodes that would take it if nothing ran there, and they were well."""
        lasting = {
            taint_set: not all(map(matching.is_temporary, matching.find_taints(self.pod_request, taint_set)))
            for taint_set in self.table.all_taint_sets
        }
        nodes = self.table.nodes
        left = self._having(self._leave_out(lasting), self.table.capacity)
        for check in self._lasting:
            left = [at for at in left if not any(reason.lasts for reason in check(nodes[at]))]
        return left

    def count_fitting(self, most: int) -> int:
        """For how many such pods there is room now, up to so many.

        Where one is a matter to the next, they are placed one after the other: only the first ones, for it takes long.
        """
        room = (
            min(len(self.feasible), most)
            if self.pod_request.ports
            else self._count(self.feasible, self.table.free, most)
        )
        if not self._depend():
            return room
        room = self._bound(room, self.feasible)
        tries = max(LEAST_TRIED, min(MOST_TRIED, MOST_LOOKED_AT // max(len(self.table), 1)))
        placed, wanted = 0, min(room, tries)
        for start in self._find_starts(tries):
            placed = max(placed, self._place(start, wanted))
            if placed == wanted:
                break
        return room if placed == tries else placed

    def count_fitting_when_empty(self, most: int) -> int:
        """For how many such pods there would be room if nothing else ran, up to so many."""
        if not (self.checks or self.pod_request.ports):
            return self._count(self.feasible_when_empty, self.table.capacity, most)
        each = (self._count_on_empty(at) for at in self.feasible_when_empty)
        return self._bound(min(sum(each), most), self.feasible_when_empty)

    def _count_on_empty(self, at: int) -> int:
        """For how many such pods a node has room if nothing is there; of those with a port of its own, for one."""
        if self.pod_request.ports:
            return 1
        room = self._count([at], self.table.capacity, MOST_ON_ONE)
        shares = gpu_sharing.count_when_empty(self.pod_request, self.table.nodes[at])
        return room if shares is None else min(room, shares)

    def _depend(self) -> bool:
        """Whether a pod that is there changes where the next one like it can go, beyond what it takes."""
        pod_request = self.pod_request
        return (
            bool(
                pod_request.pod_affinity
                or pod_request.pod_anti_affinity
                or pod_request.topology_spread
                or pod_request.claims
            )
            or gpu_sharing.prepare(pod_request, self.table) is not None
        )

    def _bound(self, room: int, positions: list[int]) -> int:
        """At most as many as there are places for pods that do not bear each other."""
        places = pod_affinity.count_domains(self.pod_request, self.table, positions)
        return room if places is None else min(room, places)

    def _find_starts(self, tries: int) -> list[int]:
        """Where to try the first: a node of each place, where others must be near to it, those with most room first."""
        keys, labels, free = (
            [term["topologyKey"] for term in self.pod_request.pod_affinity],
            self.table.labels,
            self.table.free,
        )
        places: dict[tuple[str | None, ...], list[int]] = {}
        for at in self.feasible:
            places.setdefault(tuple(labels[at].get(key) for key in keys), []).append(at)
        roomiest = nlargest(
            min(MOST_STARTS, tries), places.values(), key=lambda there: self._count(there, free, MOST_ON_ONE)
        )
        return [there[0] for there in roomiest]

    def _place(self, start: int, most: int) -> int:
        """How many find a place, one after the other, if the first of them is here."""
        table, placed, fitting = self.table.copy(), 0, [start]
        while placed < most and fitting:
            table.put(place(self.pod_request, table.nodes[fitting[0]]))
            placed += 1
            fitting = NodeFilter(self.pod_request, table).feasible if placed < most else []
        return placed

    def _leave_out(self, shut: dict[TaintSet, bool]) -> list[int]:
        if not any(shut.values()):
            return self.label_matches
        taint_sets, out = self.table.taint_sets, {id(taint_set) for taint_set, is_shut in shut.items() if is_shut}
        return [at for at in self.label_matches if id(taint_sets[at]) not in out]

    def _having(self, positions: list[int], columns: Columns) -> list[int]:
        for resource, amount in self.pod_request.amounts.items():
            if amount:
                column = columns.get(resource)
                positions = [] if column is None else [at for at in positions if column[at] >= amount]
        return positions

    def _count(self, positions: list[int], columns: Columns, most: int) -> int:
        asked = [
            (columns[resource], amount) for resource, amount in self.pod_request.amounts.items() if amount and positions
        ]
        if not asked:
            return most if positions else 0
        return min(sum(min(column[at] // amount for column, amount in asked) for at in positions), most)


def place(pod_request: PodRequest, node: Node, run_id: str = "", name: str | None = None) -> Node:
    """A node that has taken in a pod that asks for this."""
    held = Holding(
        run_id,
        name,
        pod_request.amounts,
        namespace=pod_request.namespace,
        labels=pod_request.labels,
        repels=pod_request.pod_anti_affinity,
        ports=pod_request.ports,
        claims=pod_request.claims,
        gpu_allocations=gpu_sharing.allocate(pod_request, node),
    )
    return replace(node, holdings=(*node.holdings, held))

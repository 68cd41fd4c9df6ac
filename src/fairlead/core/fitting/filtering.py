"""Which nodes take a pod, now and at their best: all of them at once, by columns."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from heapq import nlargest

from fairlead.core.fitting import matching, pod_affinity, gpu_sharing, volumes
from fairlead.core.fitting.pod_requests import Ask
from fairlead.core.fitting.node_tables import Grid, Kind
from fairlead.core.fitting.reasons import Check
from fairlead.model.nodes import Holding, Node

MOST_ON_ONE = 10_000
MOST_STARTS = 10  # places that are tried for the first of them
# Pods that are placed one after the other, to see for how many there is room: fewer where there are many nodes.
LEAST_TRIED, MOST_TRIED, MOST_LOOKED_AT = 5, 50, 50_000

Columns = dict[str, list[int]]


@dataclass(frozen=True)
class Sieve:
    """A pod and the nodes that it is held against. Each step leaves the positions of those that pass it."""

    ask: Ask
    grid: Grid

    @cached_property
    def checks(self) -> tuple[Check, ...]:
        """The rules that look beyond one node's own columns, where the pod is concerned by any."""
        return tuple(check for check in (self._about_pods, *self._about_node) if check is not None)

    @cached_property
    def _about_pods(self) -> Check | None:
        ask, grid = self.ask, self.grid
        about = (ask.near, ask.far, ask.spread, ask.labels, ask.namespace)
        key = repr((*about, ask.node_selector, ask.node_terms, ask.tolerations))
        return grid.recall(key, lambda: pod_affinity.prepare(ask, grid))

    @cached_property
    def _about_node(self) -> tuple[Check | None, ...]:
        return volumes.prepare(self.ask, self.grid), gpu_sharing.prepare(self.ask, self.grid)

    @property
    def _lasting(self) -> list[Check]:
        """The checks of which a reason may last: other pods go, unlike the lack of a label to find them by."""
        about_pods = self._about_pods if self.ask.near or self.ask.spread else None
        return [check for check in (about_pods, *self._about_node) if check is not None]

    @cached_property
    def suited(self) -> list[int]:
        """Nodes with the name and the labels that are asked for."""
        labels, names = self.grid.labels, self.grid.names
        left: Sequence[int] = range(len(names))
        if self.ask.node_name:
            found = self.grid.find(self.ask.node_name)
            left = [] if found is None else [found]
        suits = matching.compile_suits(self.ask)
        return list(left) if suits is None else [at for at in left if suits(labels[at], names[at])]

    @cached_property
    def open(self) -> list[int]:
        """Of these, those that take it in as they are now: neither cordoned nor tainted."""
        shut = {
            kind: matching.is_cordoned(self.ask, kind) or bool(matching.find_taints(self.ask, kind))
            for kind in self.grid.all_kinds
        }
        return self._leave_out(shut)

    @cached_property
    def roomy(self) -> list[int]:
        """Of these, those with all amounts free."""
        return self._having(self.open, self.grid.free)

    @cached_property
    def now(self) -> list[int]:
        """Of these, those that nothing else keeps it off: the nodes that take it now."""
        nodes = self.grid.nodes
        left = self.roomy
        if self.ask.ports:
            left = [at for at in left if matching.find_taken_port(self.ask, nodes[at]) is None]
        for check in self.checks:
            left = [at for at in left if next(check(nodes[at]), None) is None]
        return left

    @cached_property
    def large(self) -> list[int]:
        """Nodes that suit, and have all amounts if nothing else is there."""
        return self._having(self.suited, self.grid.capacity)

    @cached_property
    def best(self) -> list[int]:
        """The nodes that would take it if nothing ran there, and they were well."""
        lasting = {
            kind: not all(map(matching.is_passing, matching.find_taints(self.ask, kind)))
            for kind in self.grid.all_kinds
        }
        nodes = self.grid.nodes
        left = self._having(self._leave_out(lasting), self.grid.capacity)
        for check in self._lasting:
            left = [at for at in left if not any(reason.lasts for reason in check(nodes[at]))]
        return left

    def count_now(self, most: int) -> int:
        """For how many such pods there is room now, up to so many.

        Where one is a matter to the next, they are placed one after the other: only the first ones, for it takes long.
        """
        room = min(len(self.now), most) if self.ask.ports else self._count(self.now, self.grid.free, most)
        if not self._depend():
            return room
        room = self._bound(room, self.now)
        tries = max(LEAST_TRIED, min(MOST_TRIED, MOST_LOOKED_AT // max(len(self.grid), 1)))
        placed, wanted = 0, min(room, tries)
        for start in self._find_starts(tries):
            placed = max(placed, self._place(start, wanted))
            if placed == wanted:
                break
        return room if placed == tries else placed

    def count_best(self, most: int) -> int:
        """For how many such pods there would be room if nothing else ran, up to so many."""
        if not (self.checks or self.ask.ports):
            return self._count(self.best, self.grid.capacity, most)
        each = (self._count_on_empty(at) for at in self.best)
        return self._bound(min(sum(each), most), self.best)

    def _count_on_empty(self, at: int) -> int:
        """For how many such pods a node has room if nothing is there; of those with a port of its own, for one."""
        if self.ask.ports:
            return 1
        room = self._count([at], self.grid.capacity, MOST_ON_ONE)
        shares = gpu_sharing.count_at_best(self.ask, self.grid.nodes[at])
        return room if shares is None else min(room, shares)

    def _depend(self) -> bool:
        """Whether a pod that is there changes where the next one like it can go, beyond what it takes."""
        ask = self.ask
        return bool(ask.near or ask.far or ask.spread or ask.claims) or gpu_sharing.prepare(ask, self.grid) is not None

    def _bound(self, room: int, positions: list[int]) -> int:
        """At most as many as there are places for pods that do not bear each other."""
        places = pod_affinity.count_places(self.ask, self.grid, positions)
        return room if places is None else min(room, places)

    def _find_starts(self, tries: int) -> list[int]:
        """Where to try the first: a node of each place, where others must be near to it, those with most room first."""
        keys, labels, free = [term["topologyKey"] for term in self.ask.near], self.grid.labels, self.grid.free
        places: dict[tuple[str | None, ...], list[int]] = {}
        for at in self.now:
            places.setdefault(tuple(labels[at].get(key) for key in keys), []).append(at)
        roomiest = nlargest(
            min(MOST_STARTS, tries), places.values(), key=lambda there: self._count(there, free, MOST_ON_ONE)
        )
        return [there[0] for there in roomiest]

    def _place(self, start: int, most: int) -> int:
        """How many find a place, one after the other, if the first of them is here."""
        grid, placed, fitting = self.grid.copy(), 0, [start]
        while placed < most and fitting:
            grid.put(place(self.ask, grid.nodes[fitting[0]]))
            placed += 1
            fitting = Sieve(self.ask, grid).now if placed < most else []
        return placed

    def _leave_out(self, shut: dict[Kind, bool]) -> list[int]:
        if not any(shut.values()):
            return self.suited
        kinds, out = self.grid.kinds, {id(kind) for kind, is_shut in shut.items() if is_shut}
        return [at for at in self.suited if id(kinds[at]) not in out]

    def _having(self, positions: list[int], columns: Columns) -> list[int]:
        for resource, amount in self.ask.amounts.items():
            if amount:
                column = columns.get(resource)
                positions = [] if column is None else [at for at in positions if column[at] >= amount]
        return positions

    def _count(self, positions: list[int], columns: Columns, most: int) -> int:
        asked = [(columns[resource], amount) for resource, amount in self.ask.amounts.items() if amount and positions]
        if not asked:
            return most if positions else 0
        return min(sum(min(column[at] // amount for column, amount in asked) for at in positions), most)


def place(ask: Ask, node: Node, run_id: str = "", name: str | None = None) -> Node:
    """A node that has taken in a pod that asks for this."""
    held = Holding(
        run_id,
        name,
        ask.amounts,
        namespace=ask.namespace,
        labels=ask.labels,
        repels=ask.far,
        ports=ask.ports,
        claims=ask.claims,
        shares=gpu_sharing.deal(ask, node),
    )
    return replace(node, holdings=(*node.holdings, held))

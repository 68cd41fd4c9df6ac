"""What would make a run fit that does not fit now: each change is planned and judged before it is told."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from heapq import nlargest, nsmallest
from itertools import islice
from typing import Any, NamedTuple

from pydantic import ValidationError

from fairlead.core import quotas
from fairlead.core.drafts import Snapshot
from fairlead.core.fitting import evaluation
from fairlead.core.fitting.capacity import count_additional, is_gpu
from fairlead.core.fitting.filtering import NodeFilter
from fairlead.core.fitting.formatting import SIZES, describe_amount, name_resource, path_of
from fairlead.core.fitting.node_tables import NodeTable
from fairlead.core.fitting.pod_requests import PodRequest, read_pod_request
from fairlead.core.fitting.pod_resources import PODS
from fairlead.core.planning import NO_RUN, plan_run
from fairlead.core.quotas import UNITS, Allowance, QuotaAmounts, QuotaHolder
from fairlead.model.nodes import Amounts, Node
from fairlead.model.plans import Suggestion
from fairlead.model.quantities import MILLICORE, NANOS, Quantity, QuantityFormat
from fairlead.model.requests import RunRequest, merge

JSON = dict[str, Any]

MOST_OF_A_KIND = 3
MOST_TRIED, FEWER_TRIED = 50, 5  # fewer where all nodes are looked at for each
MOST_LOOKED_AT, MOST_CHOSEN_FROM = 200, 20
MOST_COUNTED = 1000
# An amount that people would write: the next round one below, the largest step that leaves most of it first.
ROUND = {"cpu": (NANOS, 100 * MILLICORE, MILLICORE), **dict.fromkeys(SIZES, (2**30 * NANOS, 2**20 * NANOS, NANOS))}
LEAST_KEPT = 4  # a round amount is at least so many steps


@dataclass(frozen=True)
class OtherProject:
    """Another project that the caller may work in, on another cluster."""

    project: str
    snapshot: Snapshot
    nodes: NodeTable
    allowances: Sequence[Allowance] = ()


class _PlannedRequest(NamedTuple):
    """What a request comes to: of nodes, and of quotas."""

    pod_request: PodRequest
    load: QuotaAmounts


def find_suggestions(
    request: RunRequest,
    snapshot: Snapshot,
    nodes: NodeTable,
    *,
    profiles: Sequence[str] = (),
    elsewhere: Sequence[OtherProject] = (),
    allowances: Sequence[Allowance] = (),
    turn: Sequence[Allowance] | None = None,
) -> tuple[Suggestion, ...]:
    """What would make it run now, the cheapest first: ask for less, another compute resource, another cluster, another
    kind of node, and at last patience.

    `allowances`: what quotas leave a run that is submitted now; `turn`: what they leave this one, if it waits already.
    """
    asked = _plan_request(request, snapshot)
    turn = allowances if turn is None else turn
    if asked is None or _runs_now(asked, nodes, turn):
        return ()
    trying = _SuggestionSearch(request, snapshot, nodes, asked.pod_request, asked.load, tuple(allowances), tuple(turn))
    return (
        *trying.lower(),
        *trying.choose(profiles),
        *trying.move(elsewhere),
        *trying.drop(),
        *trying.wait(),
    )


@dataclass(frozen=True)
class _SuggestionSearch:
    request: RunRequest
    snapshot: Snapshot
    nodes: NodeTable
    pod_request: PodRequest
    load: QuotaAmounts
    allowances: tuple[Allowance, ...]
    turn: tuple[Allowance, ...]

    def lower(self) -> Iterator[Suggestion]:
        """Ask for less of one thing: as much as is free, in a round amount. The smallest loss comes first."""
        found: list[tuple[float, Suggestion]] = []
        for resource, amount in self.pod_request.amounts.items():
            least, path = self._find_most(resource), path_of(resource)
            if resource == PODS or not least or least >= amount or (change := _lower(path, resource, least)) is None:
                continue
            if self._fits(change):
                word = name_resource(resource, least)
                message = (
                    f"ask for {describe_amount(resource, least)} {word} instead of {describe_amount(resource, amount)}"
                )
                found.append((1 - least / amount, Suggestion("lower", message, change)))
        fewer = self._count_pods() and NodeFilter(self.pod_request, self.nodes).count_fitting(self._count_pods())
        if fewer:
            message = f"have {fewer} pod{'s' * (fewer > 1)} instead of {self.pod_request.count}"
            if self._fits(change := {"replicas": fewer}):
                found.append((1 - fewer / self.pod_request.count, Suggestion("lower", message, change)))
        yield from (way for _, way in sorted(found, key=lambda pair: pair[0]))

    def choose(self, profiles: Sequence[str]) -> Iterator[Suggestion]:
        """Another compute resource, of those that fit: the ones that come nearest to what is asked for."""
        planned = [(name, self._plan({"profile": name})) for name in profiles if name != self.request.profile]
        others = [
            (_differ(self.pod_request.amounts, asked.pod_request.amounts), name, asked)
            for name, asked in planned
            if asked is not None
            and asked.pod_request != self.pod_request
            and not _lacks_gpus(self.pod_request, asked.pod_request)
        ]
        fitting = (
            (name, asked)
            for _, name, asked in nsmallest(MOST_CHOSEN_FROM, others, key=lambda other: other[:2])
            if _runs_now(asked, self.nodes, self.allowances)
        )
        for name, asked in islice(fitting, MOST_OF_A_KIND):
            room, more = count_additional(NodeFilter(asked.pod_request, self.nodes), MOST_COUNTED)
            room = quotas.count_fitting_runs(asked.load, self.allowances, room // asked.pod_request.count)
            told = f"{room}{'+' * more} fit{'s' * (room == 1 and not more)} now"
            yield Suggestion("compute_resource", f"use compute resource {name}, of which {told}", {"profile": name})

    def move(self, elsewhere: Sequence[OtherProject]) -> Iterator[Suggestion]:
        """Another project of the caller's, on a cluster that has room."""
        for place in elsewhere:
            other = _plan_request(self.request, place.snapshot)
            if other is not None and _runs_now(other, place.nodes, place.allowances):
                cluster = place.snapshot.cluster.name
                message = f"run it in project {place.project}: cluster {cluster} has room for it now"
                yield Suggestion("cluster", message, project=place.project)

    def drop(self) -> Iterator[Suggestion]:
        """Leave out what keeps it to certain nodes."""
        said = self.request.to_data()
        selector: list[JSON] = said.get("node_selector", [])
        changes: list[tuple[str, JSON]] = [
            (f"node_selector.{label['key']}", {"node_selector": [each for each in selector if each != label] or None})
            for label in selector
        ]
        if "affinity" in said:
            changes.append(("affinity", {"affinity": None}))
        if "type" in said.get("resources", {}).get("gpu", {}):
            changes.append(("resources.gpu.type", {"resources": {"gpu": {"type": None}}}))
        for path, change in changes:
            if self._fits(change):
                yield Suggestion("drop", f"leave out {path}: another node has room for it now", change)

    def wait(self) -> Iterator[Suggestion]:
        """Wait for one run whose end alone makes the room: those that hold least first."""
        full = not evaluation.fits_now(NodeFilter(self.pod_request, self.nodes))
        found = sorted(self._wait_for_room() if full else self._wait_for_turn(), key=lambda pair: pair[0])
        yield from (way for _, way in found[:MOST_OF_A_KIND])

    def _wait_for_room(self) -> Iterator[tuple[int, Suggestion]]:
        """Runs that hold what a node lacks, and what quotas lack where they do; with how much they hold."""
        node_filter = NodeFilter(self.pod_request, self.nodes)
        alone = self.pod_request.count == 1 and not node_filter.checks  # then nothing matters but the node itself
        most = MOST_TRIED if alone else FEWER_TRIED
        at_best = set(node_filter.feasible_when_empty)
        nearest = nlargest(
            MOST_LOOKED_AT, (at for at in node_filter.schedulable if at in at_best), key=self._has_of_asked
        )
        tried: set[str] = set()
        for at in nearest:
            node = self.nodes.nodes[at]
            for run_id, (name, held) in _holders(node, self.nodes).items():
                if run_id in tried or len(tried) == most or not _suffices(self.pod_request.amounts, node, held):
                    continue
                tried.add(run_id)
                left = (NodeTable([node]) if alone else self.nodes).without(run_id)
                if self._has_turn(run_id) and evaluation.fits_now(NodeFilter(self.pod_request, left)):
                    message = (
                        f"wait for run {name}, which holds {_show(held, self.pod_request.amounts, node)} on {node.name}"
                    )
                    yield sum(held.values()), Suggestion("wait", message, run_id=run_id)

    def _wait_for_turn(self) -> Iterator[tuple[QuotaAmounts, Suggestion]]:
        """Runs that hold what quotas lack, where nodes have room."""
        lacking = quotas.find_shortages(self.load, self.turn)[0]
        holders = {holder.run_id: holder for allowance in self.turn for holder in allowance.holders}
        for holder in list(holders.values())[:MOST_TRIED]:
            if self._has_turn(holder.run_id) and self._has_room_without(holder.run_id):
                holds = f"{_show_load(holder, lacking.part)} of the quota of {lacking.allowance.scope}"
                message = f"wait for run {holder.name}, which holds {holds}"
                yield holder.load, Suggestion("wait", message, run_id=holder.run_id)

    def _has_turn(self, gone: str) -> bool:
        """Whether quotas let it in once a run has ended."""
        return not quotas.find_shortages(self.load, [allowance.without(gone) for allowance in self.turn])

    def _has_room_without(self, gone: str) -> bool:
        """Whether nodes that have room still do once a run has ended: only what wants others near it may not."""
        if not (self.pod_request.pod_affinity or self.pod_request.topology_spread):
            return True
        return evaluation.fits_now(NodeFilter(self.pod_request, self.nodes.without(gone)))

    def _has_of_asked(self, at: int) -> float:
        """How much of what is asked for a node has free, each resource as a part."""
        free = self.nodes.free
        asked = ((name, amount) for name, amount in self.pod_request.amounts.items() if amount)
        return sum(min(max(free[name][at], 0) / amount, 1) for name, amount in asked if name in free)

    def _find_most(self, resource: str) -> int:
        """The most of a resource that could be asked for, all else as it is; a round amount."""
        column = self.nodes.free.get(resource)
        if column is None or resource == PODS:
            return 0
        freed = replace(self.pod_request, amounts={**self.pod_request.amounts, resource: 0}, count=1)
        free = sorted((column[at] for at in NodeFilter(freed, self.nodes).feasible), reverse=True)
        bound = self._find_left(resource, free[0] if free else 0)
        if self.pod_request.count == 1:
            return _round_down(resource, bound)
        shares = (left // share for left in dict.fromkeys(free) for share in (1, 2, 4))
        rounded = dict.fromkeys(_round_down(resource, min(share, bound)) for share in shares)
        for amount in sorted(rounded, reverse=True)[:FEWER_TRIED]:
            asked = replace(self.pod_request, amounts={**self.pod_request.amounts, resource: amount})
            if (
                0 < amount < self.pod_request.amounts[resource]
                and NodeFilter(asked, self.nodes).count_fitting(asked.count) >= asked.count
            ):
                return amount
        return 0

    def _find_left(self, resource: str, most: int) -> int:
        """What quotas leave each pod of a resource, and at most so much."""
        part = path_of(resource).removeprefix("resources.")
        bounds = [allowance.left[part] for allowance in self.allowances if part in allowance.left]
        return min([most, *(max(left, 0) * UNITS[part] // self.pod_request.count for left in bounds)])

    def _count_pods(self) -> int:
        """How many of its pods quotas have room for, and at most one less than there are."""
        each = QuotaAmounts(*(amount // self.pod_request.count for amount in self.load[:3]))
        return quotas.count_fitting_runs(each, self.allowances, self.pod_request.count - 1)

    def _plan(self, change: JSON) -> _PlannedRequest | None:
        try:
            changed = RunRequest.model_validate(merge(self.request.to_data(), change))
        except ValidationError:
            return None
        return _plan_request(changed, self.snapshot)

    def _fits(self, change: JSON) -> bool:
        asked = self._plan(change)
        return asked is not None and _runs_now(asked, self.nodes, self.allowances)


def _plan_request(request: RunRequest, snapshot: Snapshot) -> _PlannedRequest | None:
    """What a request comes to; None where it is refused for something else."""
    plan = plan_run(request, snapshot, NO_RUN)
    return (
        _PlannedRequest(read_pod_request(plan.manifests), QuotaAmounts.of(quotas.count_resources(plan.settings)))
        if plan.manifests
        else None
    )


def _runs_now(asked: _PlannedRequest, nodes: NodeTable, allowances: Sequence[Allowance]) -> bool:
    """Whether quotas let it in, and nodes have the room."""
    held = quotas.find_shortages(asked.load, allowances)
    return not held and evaluation.fits_now(NodeFilter(asked.pod_request, nodes))


def _lower(path: str, resource: str, amount: int) -> JSON | None:
    """The change by which less of a resource is asked for."""
    part = path.removeprefix("resources.")
    if part == "gpu":
        return {"resources": {"gpu": {"devices": amount // NANOS}}}
    if part in ("cpu", "mem", "disk"):
        form = QuantityFormat.BINARY if resource in SIZES else QuantityFormat.DECIMAL
        return {"resources": {part: {"requests": str(Quantity(amount, form))}}}
    if part.startswith("extended."):
        return {"resources": {"extended": {resource: str(amount // NANOS)}}}
    return None


def _round_down(resource: str, amount: int) -> int:
    steps = ROUND.get(resource, (NANOS,))
    step = next((step for step in steps[:-1] if amount >= LEAST_KEPT * step), steps[-1])
    return max(amount, 0) // step * step


def _lacks_gpus(pod_request: PodRequest, other: PodRequest) -> bool:
    """Whether something else would be no replacement: GPUs are asked for, and it has none."""
    return _has_gpus(pod_request) and not _has_gpus(other)


def _has_gpus(pod_request: PodRequest) -> bool:
    return pod_request.gpu_share is not None or any(map(is_gpu, pod_request.amounts))


def _differ(one: Amounts, other: Amounts) -> float:
    """How far apart two amounts are, each resource as a part of the larger one."""
    names = (one.keys() | other.keys()) - {PODS}
    return sum(
        abs(one.get(name, 0) - other.get(name, 0)) / max(one.get(name, 0), other.get(name, 0), 1) for name in names
    )


def _holders(node: Node, nodes: NodeTable) -> dict[str, tuple[str, dict[str, int]]]:
    """By run, its name and what it holds of a node, where the reader may know it."""
    held: defaultdict[str, dict[str, int]] = defaultdict(dict)
    names: dict[str, str] = {}
    for holding in node.pods:
        if (name := nodes.visible_name(holding)) is not None and holding.run_id:
            names[holding.run_id] = name
            for resource, amount in holding.amounts.items():
                held[holding.run_id][resource] = held[holding.run_id].get(resource, 0) + amount
    return {run_id: (names[run_id], amounts) for run_id, amounts in held.items()}


def _suffices(asked: Amounts, node: Node, held: Amounts) -> bool:
    return all(amount <= max(node.free(name), 0) + held.get(name, 0) for name, amount in asked.items())


def _show(held: Amounts, asked: Amounts, node: Node) -> str:
    """What a run holds of what is lacking."""
    lacking = [name for name, amount in asked.items() if amount > max(node.free(name), 0) and name != PODS]
    shown = [
        f"{describe_amount(name, held[name])} {name_resource(name, held[name])}" for name in lacking if name in held
    ]
    return " and ".join(shown) or "the place"


def _show_load(holder: QuotaHolder, part: str) -> str:
    """What a run holds of what a quota lacks."""
    return quotas.show(part, getattr(holder.load, part)) if part != "runs" else "a place"

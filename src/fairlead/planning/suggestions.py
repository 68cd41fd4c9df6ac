"""Suggestions that make a run fit now. Each change is planned and checked before it is suggested."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from heapq import nlargest, nsmallest
from itertools import islice
from typing import Any, NamedTuple

from pydantic import ValidationError

from fairlead.model.nodes import Amounts, Node, NodeTable, PodRequest
from fairlead.model.plans import Suggestion
from fairlead.model.quantities import MILLICORE, NANOS, Quantity, QuantityFormat
from fairlead.model.requests import RunRequest, merge_patch
from fairlead.planning.capacity import count_additional, is_gpu
from fairlead.planning.plan import NO_RUN, plan_run
from fairlead.resolution.drafts import Snapshot
from fairlead.scheduling import evaluation, quotas
from fairlead.scheduling.filters import NodeFilter
from fairlead.scheduling.pod_requests import PODS
from fairlead.scheduling.quotas import UNITS, Allowance, QuotaAmounts, QuotaHolder
from fairlead.scheduling.reasons import SIZES, describe_amount, name_resource, resource_path

JSON = dict[str, Any]

# These limit how long a search takes: each candidate is planned like a request, then evaluated on the nodes.
MAX_PER_KIND = 3
MAX_TRIED, MAX_TRIED_ON_ALL_NODES = 50, 5  # fewer if each attempt examines all nodes
MAX_NODES, MAX_PROFILES = 200, 20
MAX_COUNTED = 1000
# Suggested amounts are rounded down to a multiple of the largest step that does not reduce them too much.
ROUNDING_STEPS = {
    "cpu": (NANOS, 100 * MILLICORE, MILLICORE),
    **dict.fromkeys(SIZES, (2**30 * NANOS, 2**20 * NANOS, NANOS)),
}
MIN_STEPS = 4  # a rounded amount has at least this many steps


@dataclass(frozen=True)
class OtherProject:
    """Another of the caller's projects, on a different cluster."""

    project: str
    snapshot: Snapshot
    nodes: NodeTable
    allowances: Sequence[Allowance] = ()


class _PlannedRequest(NamedTuple):
    """The resources that a planned request needs from nodes and from quotas."""

    pod_request: PodRequest
    quota_amounts: QuotaAmounts


def find_suggestions(
    request: RunRequest,
    snapshot: Snapshot,
    nodes: NodeTable,
    *,
    profiles: Sequence[str] = (),
    other_projects: Sequence[OtherProject] = (),
    allowances: Sequence[Allowance] = (),
    queued_allowances: Sequence[Allowance] | None = None,
) -> tuple[Suggestion, ...]:
    """Find changes that would let the run start now, ordered by how much the user loses.

    The order is: request less, use another compute resource, another cluster, other nodes, or wait for a run.
    `allowances` are the quotas as they apply to a newly submitted run, `queued_allowances` as they apply to this run
    if it is already waiting.
    """
    planned = _plan_request(request, snapshot)
    queued_allowances = allowances if queued_allowances is None else queued_allowances
    if planned is None or _runs_now(planned, nodes, queued_allowances):
        return ()
    search = _SuggestionSearch(
        request,
        snapshot,
        nodes,
        planned.pod_request,
        planned.quota_amounts,
        tuple(allowances),
        tuple(queued_allowances),
    )
    return (
        *search.lower(),
        *search.choose(profiles),
        *search.move(other_projects),
        *search.drop(),
        *search.wait(),
    )


@dataclass(frozen=True)
class _SuggestionSearch:
    request: RunRequest
    snapshot: Snapshot
    nodes: NodeTable
    pod_request: PodRequest
    quota_amounts: QuotaAmounts
    # A changed request is a new run at the end of the queue. A run that waits for another run keeps its place.
    allowances: tuple[Allowance, ...]
    queued_allowances: tuple[Allowance, ...]

    def lower(self) -> Iterator[Suggestion]:
        """Request less of one resource: a round amount that is free. The smallest reduction comes first."""
        suggestions: list[tuple[float, Suggestion]] = []
        for resource, amount in self.pod_request.amounts.items():
            lower, path = self._find_largest(resource), resource_path(resource)
            if resource == PODS or not lower or lower >= amount or (change := _lower(path, resource, lower)) is None:
                continue
            if self._fits(change):
                word = name_resource(resource, lower)
                message = (
                    f"request {describe_amount(resource, lower)} {word} instead of {describe_amount(resource, amount)}"
                )
                suggestions.append((1 - lower / amount, Suggestion("lower", message, change)))
        # As many pods as the quotas allow and the nodes have room for.
        fewer = self._count_pods() and NodeFilter(self.pod_request, self.nodes).count_fitting(self._count_pods())
        if fewer:
            message = f"use {fewer} pod{'s' * (fewer > 1)} instead of {self.pod_request.count}"
            if self._fits(change := {"replicas": fewer}):
                suggestions.append((1 - fewer / self.pod_request.count, Suggestion("lower", message, change)))
        yield from (suggestion for _, suggestion in sorted(suggestions, key=lambda pair: pair[0]))

    def choose(self, profiles: Sequence[str]) -> Iterator[Suggestion]:
        """Use another compute resource that fits. The most similar ones come first."""
        planned = [(name, self._plan({"profile": name})) for name in profiles if name != self.request.profile]
        others = [
            (_difference(self.pod_request.amounts, other.pod_request.amounts), name, other)
            for name, other in planned
            if other is not None
            and other.pod_request != self.pod_request
            and not _lacks_gpus(self.pod_request, other.pod_request)
        ]
        fitting = (
            (name, other)
            # The key leaves out the plan, which cannot be compared.
            for _, name, other in nsmallest(MAX_PROFILES, others, key=lambda candidate: candidate[:2])
            if _runs_now(other, self.nodes, self.allowances)
        )
        for name, other in islice(fitting, MAX_PER_KIND):
            count, more = count_additional(NodeFilter(other.pod_request, self.nodes), MAX_COUNTED)
            count = quotas.count_fitting_runs(other.quota_amounts, self.allowances, count // other.pod_request.count)
            fits = f"{count}{'+' * more} fit{'s' * (count == 1 and not more)} now"
            yield Suggestion("compute_resource", f"use compute resource {name} ({fits})", {"profile": name})

    def move(self, other_projects: Sequence[OtherProject]) -> Iterator[Suggestion]:
        """Use another of the caller's projects, on a cluster that has room."""
        for other in other_projects:
            planned = _plan_request(self.request, other.snapshot)
            if planned is not None and _runs_now(planned, other.nodes, other.allowances):
                message = f"run it in project {other.project}: cluster {other.snapshot.cluster.name} has room now"
                yield Suggestion("cluster", message, project=other.project)

    def drop(self) -> Iterator[Suggestion]:
        """Remove a node selector, the affinity or the GPU type."""
        data = self.request.to_data()
        selector: list[JSON] = data.get("node_selector", [])
        changes: list[tuple[str, JSON]] = [
            (f"node_selector.{label['key']}", {"node_selector": [each for each in selector if each != label] or None})
            for label in selector
        ]
        if "affinity" in data:
            changes.append(("affinity", {"affinity": None}))
        if "type" in data.get("resources", {}).get("gpu", {}):
            changes.append(("resources.gpu.type", {"resources": {"gpu": {"type": None}}}))
        for path, change in changes:
            if self._fits(change):
                yield Suggestion("drop", f"remove {path}: another node has room now", change)

    def wait(self) -> Iterator[Suggestion]:
        """Wait for a single run to end, if that would be enough. The smallest runs come first."""
        full = not evaluation.fits_now(NodeFilter(self.pod_request, self.nodes))
        suggestions = sorted(self._wait_for_nodes() if full else self._wait_for_quota(), key=lambda pair: pair[0])
        yield from (suggestion for _, suggestion in suggestions[:MAX_PER_KIND])

    def _wait_for_nodes(self) -> Iterator[tuple[int, Suggestion]]:
        """Runs that use what a node lacks (and what quotas lack, if anything), with the amounts that they use."""
        node_filter = NodeFilter(self.pod_request, self.nodes)
        single_node = self.pod_request.count == 1 and not node_filter.checks  # if so, other nodes do not matter
        limit = MAX_TRIED if single_node else MAX_TRIED_ON_ALL_NODES
        feasible = set(node_filter.feasible_when_empty)
        nearest = nlargest(MAX_NODES, (at for at in node_filter.schedulable if at in feasible), key=self._free_fraction)
        tried: set[str] = set()
        for at in nearest:
            node = self.nodes.nodes[at]
            for run_id, (name, usage) in _usage_by_run(node, self.nodes).items():
                # Compare amounts first, which is quick: evaluating a table without the run is much slower.
                if run_id in tried or len(tried) == limit or not _suffices(self.pod_request.amounts, node, usage):
                    continue
                tried.add(run_id)
                left = (NodeTable([node]) if single_node else self.nodes).without(run_id)
                if self._has_quota_without(run_id) and evaluation.fits_now(NodeFilter(self.pod_request, left)):
                    uses = _format_usage(usage, self.pod_request.amounts, node)
                    message = f"wait for run {name}, which uses {uses} on {node.name}"
                    yield sum(usage.values()), Suggestion("wait", message, run_id=run_id)

    def _wait_for_quota(self) -> Iterator[tuple[QuotaAmounts, Suggestion]]:
        """Runs that use what quotas lack, if nodes have room."""
        # The list is not empty: nodes have room, so a quota must be the reason why the run does not start.
        shortage = quotas.find_shortages(self.quota_amounts, self.queued_allowances)[0]
        holders = {holder.run_id: holder for allowance in self.queued_allowances for holder in allowance.holders}
        for holder in list(holders.values())[:MAX_TRIED]:
            if self._has_quota_without(holder.run_id) and self._fits_nodes_without(holder.run_id):
                uses = f"{_format_quota_usage(holder, shortage.part)} of the {shortage.allowance.scope} quota"
                message = f"wait for run {holder.name}, which uses {uses}"
                yield holder.usage, Suggestion("wait", message, run_id=holder.run_id)

    def _has_quota_without(self, gone: str) -> bool:
        """Whether quotas admit the run after another run has ended."""
        return not quotas.find_shortages(
            self.quota_amounts, [allowance.without(gone) for allowance in self.queued_allowances]
        )

    def _fits_nodes_without(self, gone: str) -> bool:
        """Whether the run still fits after another run has ended: it may depend on that run because of affinity."""
        if not (self.pod_request.pod_affinity or self.pod_request.topology_spread):
            return True
        return evaluation.fits_now(NodeFilter(self.pod_request, self.nodes.without(gone)))

    def _free_fraction(self, at: int) -> float:
        """The sum over all resources of the requested fraction that is free on a node."""
        free = self.nodes.free
        requested = ((name, amount) for name, amount in self.pod_request.amounts.items() if amount)
        return sum(min(max(free[name][at], 0) / amount, 1) for name, amount in requested if name in free)

    def _find_largest(self, resource: str) -> int:
        """The largest round amount of a resource that fits, with the rest of the request unchanged."""
        column = self.nodes.free.get(resource)
        if column is None or resource == PODS:
            return 0
        # Free amounts on all nodes that meet the other requirements. For a single pod, the largest is the answer.
        without = replace(self.pod_request, amounts={**self.pod_request.amounts, resource: 0}, count=1)
        free = sorted((column[at] for at in NodeFilter(without, self.nodes).feasible), reverse=True)
        limit = self._limit_by_quotas(resource, free[0] if free else 0)
        if self.pod_request.count == 1:
            return _round_down(resource, limit)
        candidates = (amount // pods for amount in dict.fromkeys(free) for pods in (1, 2, 4))  # several pods per node
        rounded = dict.fromkeys(_round_down(resource, min(amount, limit)) for amount in candidates)
        for amount in sorted(rounded, reverse=True)[:MAX_TRIED_ON_ALL_NODES]:
            lowered = replace(self.pod_request, amounts={**self.pod_request.amounts, resource: amount})
            if (
                0 < amount < self.pod_request.amounts[resource]
                and NodeFilter(lowered, self.nodes).count_fitting(lowered.count) >= lowered.count
            ):
                return amount
        return 0

    def _limit_by_quotas(self, resource: str, amount: int) -> int:
        """The amount per pod, or less if the quotas do not allow that much."""
        part = resource_path(resource).removeprefix("resources.")
        remaining = [allowance.remaining[part] for allowance in self.allowances if part in allowance.remaining]
        return min([amount, *(max(total, 0) * UNITS[part] // self.pod_request.count for total in remaining)])

    def _count_pods(self) -> int:
        """The number of pods that the quotas allow, at most one less than requested."""
        # The number of runs is left out, because all pods belong to one run.
        per_pod = QuotaAmounts(*(amount // self.pod_request.count for amount in self.quota_amounts[:3]))
        return quotas.count_fitting_runs(per_pod, self.allowances, self.pod_request.count - 1)

    def _plan(self, change: JSON) -> _PlannedRequest | None:
        try:
            changed = RunRequest.model_validate(merge_patch(self.request.to_data(), change))
        except ValidationError:  # the change may contradict other fields of the request
            return None
        return _plan_request(changed, self.snapshot)

    def _fits(self, change: JSON) -> bool:
        planned = self._plan(change)
        return planned is not None and _runs_now(planned, self.nodes, self.allowances)


def _plan_request(request: RunRequest, snapshot: Snapshot) -> _PlannedRequest | None:
    """Plan a request; None if it is rejected."""
    demand = plan_run(request, snapshot, NO_RUN).demand
    return None if demand is None else _PlannedRequest(demand.pod_request, QuotaAmounts.of(demand.resources))


def _runs_now(planned: _PlannedRequest, nodes: NodeTable, allowances: Sequence[Allowance]) -> bool:
    """Whether quotas admit the run and nodes have room for it."""
    shortages = quotas.find_shortages(planned.quota_amounts, allowances)
    return not shortages and evaluation.fits_now(NodeFilter(planned.pod_request, nodes))


def _lower(path: str, resource: str, amount: int) -> JSON | None:
    """The merge patch that lowers the request of a resource; None if it cannot be lowered."""
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
    steps = ROUNDING_STEPS.get(resource, (NANOS,))
    step = next((step for step in steps[:-1] if amount >= MIN_STEPS * step), steps[-1])
    return max(amount, 0) // step * step


def _lacks_gpus(pod_request: PodRequest, other: PodRequest) -> bool:
    """Whether the other request is unsuitable because it has no GPUs."""
    return _has_gpus(pod_request) and not _has_gpus(other)


def _has_gpus(pod_request: PodRequest) -> bool:
    return pod_request.gpu_share is not None or any(map(is_gpu, pod_request.amounts))


def _difference(one: Amounts, other: Amounts) -> float:
    """The relative difference between two requests, summed over all resources."""
    names = (one.keys() | other.keys()) - {PODS}
    return sum(
        abs(one.get(name, 0) - other.get(name, 0)) / max(one.get(name, 0), other.get(name, 0), 1) for name in names
    )


def _usage_by_run(node: Node, nodes: NodeTable) -> dict[str, tuple[str, dict[str, int]]]:
    """The name and usage of each run that the caller may see on a node."""
    usage: defaultdict[str, dict[str, int]] = defaultdict(dict)
    names: dict[str, str] = {}
    for pod in node.pods:
        if (name := nodes.visible_name(pod)) is not None and pod.run_id:
            names[pod.run_id] = name
            for resource, amount in pod.amounts.items():
                usage[pod.run_id][resource] = usage[pod.run_id].get(resource, 0) + amount
    return {run_id: (names[run_id], amounts) for run_id, amounts in usage.items()}


def _suffices(requested: Amounts, node: Node, usage: Amounts) -> bool:
    return all(amount <= max(node.free(name), 0) + usage.get(name, 0) for name, amount in requested.items())


def _format_usage(usage: Amounts, requested: Amounts, node: Node) -> str:
    """The usage of the resources that the node lacks."""
    lacking = [name for name, amount in requested.items() if amount > max(node.free(name), 0) and name != PODS]
    shown = [
        f"{describe_amount(name, usage[name])} {name_resource(name, usage[name])}" for name in lacking if name in usage
    ]
    return " and ".join(shown) or "a slot"


def _format_quota_usage(holder: QuotaHolder, part: str) -> str:
    return quotas.format_amount(part, getattr(holder.usage, part)) if part != "runs" else "a slot"

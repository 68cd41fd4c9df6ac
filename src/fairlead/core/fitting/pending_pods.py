"""Simulates how kube-scheduler would place a cluster's pending pods one after another."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from fairlead.core.fitting import evaluation
from fairlead.core.fitting.filtering import NodeFilter, place
from fairlead.core.fitting.node_tables import NodeTable
from fairlead.core.fitting.pod_requests import PodRequest, read_pod
from fairlead.core.fitting.reading_nodes import ENDED
from fairlead.model.nodes import Node

WEIGHED = ("cpu", "memory")  # resources that kube-scheduler scores to find the least allocated node

JSON = Mapping[str, Any]


@dataclass(frozen=True)
class PendingPod:
    """A pod without a node, with its scheduling gates."""

    name: str
    pod_request: PodRequest
    priority: int = 0
    created_at: str = ""
    gates: tuple[str, ...] = ()


@dataclass(frozen=True)
class PlacementResult:
    """The node for a pending pod, or the reasons why the pod stays pending."""

    pod: str
    verdict: str
    node: str | None
    reasons: list[str]


def read_pending_pods(items: Iterable[JSON]) -> list[PendingPod]:
    """The pending pods among Kubernetes objects, in the order in which kube-scheduler considers them."""
    pods = [_read(raw) for raw in items if raw["kind"] == "Pod" and is_pending(raw)]
    # Kubernetes timestamps are in UTC and have a fixed length, so they can be compared as text.
    return sorted(pods, key=lambda pod: (-pod.priority, pod.created_at, pod.name))


def is_pending(raw: JSON) -> bool:
    """Whether a pod is waiting for a node."""
    node_name, ended = raw["spec"].get("nodeName"), (raw.get("status") or {}).get("phase") in ENDED
    return not node_name and not ended and "deletionTimestamp" not in raw["metadata"]


def schedule_all(
    queue: Iterable[PendingPod], table: NodeTable, *, autoscaled: bool = False
) -> Iterator[PlacementResult]:
    """The result for each pod, given the placements of the pods before it. The table is not changed."""
    table = table.copy()
    for pod in queue:
        node_filter = NodeFilter(pod.pod_request, table)
        verdict = evaluation.decide_verdict(node_filter, autoscaled=autoscaled)
        gated = [f"waiting for scheduling gate {gate}" for gate in pod.gates]
        if verdict == evaluation.NOW:
            node = min(
                (table.nodes[at] for at in node_filter.feasible),
                key=lambda node: (-_weigh(node, pod.pod_request), node.name),
            )
            # kube-scheduler does not consider a gated pod, so it takes no capacity from the pods after it.
            if not pod.gates:
                table.put(place(pod.pod_request, node, name=pod.name))
            yield PlacementResult(
                pod.name, evaluation.LATER if pod.gates else verdict, None if pod.gates else node.name, gated
            )
        else:
            reasons = evaluation.evaluate(pod.pod_request, table, autoscaled=autoscaled).reasons
            yield PlacementResult(pod.name, verdict, None, [*gated, *reasons])


def _read(raw: JSON) -> PendingPod:
    meta, spec = raw["metadata"], raw["spec"]
    return PendingPod(
        name=f"{meta.get('namespace') or 'default'}/{meta['name']}",
        pod_request=read_pod(spec, meta),
        # The API server resolves the priority class to a number when the pod is created.
        priority=spec.get("priority") or 0,
        created_at=meta.get("creationTimestamp") or "",
        gates=tuple(gate["name"] for gate in spec.get("schedulingGates") or ()),
    )


def _weigh(node: Node, pod_request: PodRequest) -> float:
    """The score of kube-scheduler's LeastAllocated strategy: the mean free fraction after placing the pod."""
    free = [
        (node.free(name) - pod_request.amounts.get(name, 0)) / node.capacity[name]
        for name in WEIGHED
        if node.capacity.get(name)
    ]
    return sum(free) / len(free) if free else 0.0

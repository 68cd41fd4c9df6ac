"""Where pods that wait would go, one after the other, as each leaves less for those behind it."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from fairlead.core.fitting import evaluation
from fairlead.core.fitting.filtering import NodeFilter, place
from fairlead.core.fitting.node_tables import NodeTable
from fairlead.core.fitting.pod_requests import PodRequest, read_pod
from fairlead.core.fitting.reading_nodes import ENDED
from fairlead.model.nodes import Node

WEIGHED = ("cpu", "memory")  # by which kube-scheduler finds the node that is least taken

JSON = Mapping[str, Any]


@dataclass(frozen=True)
class PendingPod:
    """A pod without a node. `gates`: who holds it back, whatever room there is."""

    name: str
    pod_request: PodRequest
    priority: int = 0
    created_at: str = ""
    gates: tuple[str, ...] = ()


@dataclass(frozen=True)
class PlacementResult:
    """What becomes of a pod: where it would go, or why it goes nowhere."""

    pod: str
    verdict: str
    node: str | None
    reasons: list[str]


def read_pending_pods(items: Iterable[JSON]) -> list[PendingPod]:
    """The pods among objects that wait for a node, in the order in which kube-scheduler takes them."""
    found = [_read(raw) for raw in items if raw["kind"] == "Pod" and is_pending(raw)]
    return sorted(found, key=lambda pod: (-pod.priority, pod.created_at, pod.name))


def is_pending(raw: JSON) -> bool:
    """Whether a pod has no node, and still wants one."""
    placed, ended = raw["spec"].get("nodeName"), (raw.get("status") or {}).get("phase") in ENDED
    return not placed and not ended and "deletionTimestamp" not in raw["metadata"]


def schedule_all(
    queue: Iterable[PendingPod], table: NodeTable, *, autoscaled: bool = False
) -> Iterator[PlacementResult]:
    """What becomes of each pod, after those before it got their places. The grid stays as it is."""
    table = table.copy()
    for pod in queue:
        node_filter = NodeFilter(pod.pod_request, table)
        verdict = evaluation.decide_verdict(node_filter, autoscaled=autoscaled)
        held_back = [f"is held back by {gate}, whatever room there is" for gate in pod.gates]
        if verdict == evaluation.NOW:
            node = min(
                (table.nodes[at] for at in node_filter.feasible),
                key=lambda node: (-_weigh(node, pod.pod_request), node.name),
            )
            if not pod.gates:
                table.put(place(pod.pod_request, node, name=pod.name))
            yield PlacementResult(
                pod.name, evaluation.LATER if pod.gates else verdict, None if pod.gates else node.name, held_back
            )
        else:
            reasons = evaluation.evaluate(pod.pod_request, table, autoscaled=autoscaled).reasons
            yield PlacementResult(pod.name, verdict, None, [*held_back, *reasons])


def _read(raw: JSON) -> PendingPod:
    meta, spec = raw["metadata"], raw["spec"]
    return PendingPod(
        name=f"{meta.get('namespace') or 'default'}/{meta['name']}",
        pod_request=read_pod(spec, meta),
        priority=spec.get("priority") or 0,
        created_at=meta.get("creationTimestamp") or "",
        gates=tuple(gate["name"] for gate in spec.get("schedulingGates") or ()),
    )


def _weigh(node: Node, pod_request: PodRequest) -> float:
    """How much would be left of what is weighed, in parts of what the node has."""
    left = [
        (node.free(name) - pod_request.amounts.get(name, 0)) / node.capacity[name]
        for name in WEIGHED
        if node.capacity.get(name)
    ]
    return sum(left) / len(left) if left else 0.0

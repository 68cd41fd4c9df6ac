"""Short constructors for nodes, pods and pod requests."""

from collections.abc import Mapping, Sequence
from typing import Any

from fairlead.model.nodes import Node, PodRequest, ScheduledPod, Taint
from fairlead.model.quantities import NANOS, Quantity
from fairlead.scheduling.pod_requests import PODS

NAMES = {"mem": "memory", "disk": "ephemeral-storage", "gpu": "nvidia.com/gpu"}


def make_amounts(**amounts: str | int) -> dict[str, int]:
    """Parsed amounts by Kubernetes resource name."""
    return {NAMES.get(name, name): Quantity.parse(str(amount)).nanos for name, amount in amounts.items()}


def make_pod_request(
    *, selector: Mapping[str, str] | None = None, terms: Any = None, tolerations: Any = (), **amounts: str | int
) -> PodRequest:
    """A request for one pod with the given amounts."""
    node_terms = None if terms is None else tuple(terms)
    return PodRequest({**make_amounts(**amounts), PODS: NANOS}, selector or {}, node_terms, tuple(tolerations))


def make_scheduled_pod(name: str | None = "train-a", **amounts: str | int) -> ScheduledPod:
    """A pod of a run, scheduled on a node, with the given amounts."""
    return ScheduledPod(f"id-{name}", name, {**make_amounts(**amounts), PODS: NANOS})


def make_taint(text: str) -> Taint:
    """A taint as kubectl writes it: key=value:effect."""
    key_and_value, _, effect = text.rpartition(":")
    key, _, value = key_and_value.partition("=")
    return Taint(key, value, effect)


def make_node(
    *scheduled_pods: ScheduledPod,
    name: str = "box",
    labels: Mapping[str, str] | None = None,
    taints: Sequence[str] = (),
    cordoned: bool = False,
    **amounts: str | int,
) -> Node:
    """A node with the given capacity and scheduled pods."""
    capacity = make_amounts(**{"cpu": 8, "mem": "32Gi", "disk": "100Gi", "gpu": 2, "pods": 16, **amounts})
    return Node(name, capacity, labels or {}, scheduled_pods, tuple(map(make_taint, taints)), cordoned)

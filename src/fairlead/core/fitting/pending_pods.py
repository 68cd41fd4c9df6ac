"""Where pods that wait would go, one after the other, as each leaves less for those behind it."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from fairlead.core.fitting import evaluation
from fairlead.core.fitting.pod_requests import Ask, read_pod
from fairlead.core.fitting.node_tables import Grid
from fairlead.core.fitting.reading_nodes import ENDED
from fairlead.core.fitting.filtering import Sieve, place
from fairlead.model.nodes import Node

WEIGHED = ("cpu", "memory")  # by which kube-scheduler finds the node that is least taken

JSON = Mapping[str, Any]


@dataclass(frozen=True)
class Waiting:
    """A pod without a node. `gates`: who holds it back, whatever room there is."""

    name: str
    ask: Ask
    priority: int = 0
    created_at: str = ""
    gates: tuple[str, ...] = ()


@dataclass(frozen=True)
class Placed:
    """What becomes of a pod: where it would go, or why it goes nowhere."""

    pod: str
    verdict: str
    node: str | None
    reasons: list[str]


def read_waiting(items: Iterable[JSON]) -> list[Waiting]:
    """The pods among objects that wait for a node, in the order in which kube-scheduler takes them."""
    found = [_read(raw) for raw in items if raw["kind"] == "Pod" and is_waiting(raw)]
    return sorted(found, key=lambda pod: (-pod.priority, pod.created_at, pod.name))


def is_waiting(raw: JSON) -> bool:
    """Whether a pod has no node, and still wants one."""
    placed, ended = raw["spec"].get("nodeName"), (raw.get("status") or {}).get("phase") in ENDED
    return not placed and not ended and "deletionTimestamp" not in raw["metadata"]


def place_all(queue: Iterable[Waiting], grid: Grid, *, autoscaled: bool = False) -> Iterator[Placed]:
    """What becomes of each pod, after those before it got their places. The grid stays as it is."""
    grid = grid.copy()
    for pod in queue:
        sieve = Sieve(pod.ask, grid)
        verdict = evaluation.judge_sieve(sieve, autoscaled=autoscaled)
        held_back = [f"is held back by {gate}, whatever room there is" for gate in pod.gates]
        if verdict == evaluation.NOW:
            node = min((grid.nodes[at] for at in sieve.now), key=lambda node: (-_weigh(node, pod.ask), node.name))
            if not pod.gates:
                grid.put(place(pod.ask, node, name=pod.name))
            yield Placed(pod.name, evaluation.LATER if pod.gates else verdict, None if pod.gates else node.name, held_back)
        else:
            reasons = evaluation.judge(pod.ask, grid, autoscaled=autoscaled).reasons
            yield Placed(pod.name, verdict, None, [*held_back, *reasons])


def _read(raw: JSON) -> Waiting:
    meta, spec = raw["metadata"], raw["spec"]
    return Waiting(
        name=f"{meta.get('namespace') or 'default'}/{meta['name']}",
        ask=read_pod(spec, meta),
        priority=spec.get("priority") or 0,
        created_at=meta.get("creationTimestamp") or "",
        gates=tuple(gate["name"] for gate in spec.get("schedulingGates") or ()),
    )


def _weigh(node: Node, ask: Ask) -> float:
    """How much would be left of what is weighed, in parts of what the node has."""
    left = [
        (node.free(name) - ask.amounts.get(name, 0)) / node.capacity[name]
        for name in WEIGHED
        if node.capacity.get(name)
    ]
    return sum(left) / len(left) if left else 0.0

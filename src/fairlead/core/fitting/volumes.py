"""Whether a node reaches the volumes that a pod mounts, as kube-scheduler sees it."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from fairlead.core.fitting.matching import show_expression
from fairlead.core.fitting.node_tables import NodeTable
from fairlead.core.fitting.pod_requests import PodRequest
from fairlead.core.fitting.reasons import Cause, NodeCheck, Reason
from fairlead.core.fitting.volume_binding import check_waiting, reaches, wait
from fairlead.model.nodes import Claim, Node, SchedulingContext, Volume

ONE_POD = "ReadWriteOncePod"
# Labels of zones and regions, by the names that they had before.
NEW_NAMES = {
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
}
ZONES = (*NEW_NAMES, *NEW_NAMES.values())
BETWEEN_ZONES = "__"


class MountedVolume(NamedTuple):
    """A claim's volume, the zones and regions in which it is, by label, and what nodes have that reach it."""

    claim: str
    volume: Volume
    zones: list[tuple[str, list[str]]]
    reached_from: str

    def __str__(self) -> str:
        """The beginning of a sentence."""
        return f"mounts claim {self.claim}, whose volume {self.volume.name} is"


def prepare(pod_request: PodRequest, table: NodeTable) -> NodeCheck | None:
    """How nodes are asked whether they reach a pod's volumes; None where it mounts none, or nobody has looked."""
    context = table.context
    if not pod_request.claims or context.claims is None:
        return None
    claims = {name: context.claims.get((pod_request.namespace, name)) for name in pod_request.claims}
    unready = {name: why for name, claim in claims.items() if (why := _find_unready(claim, context))}
    everywhere = [
        Reason(Cause.CLAIM, f"volumes.{name}", f"mounts claim {name}, {why}") for name, why in unready.items()
    ]
    everywhere += _find_used(claims, pod_request, table)
    there = {name: claim for name, claim in claims.items() if claim is not None}
    mounted = [
        MountedVolume(name, volume, _read_zones(volume), _show_reach(volume))
        for name, claim in there.items()
        if (volume := context.volumes.get(claim.volume)) is not None
    ]
    # In kube-scheduler's eyes, a claim that is mounted twice needs two volumes.
    waiting = [
        wait(name, pod_request.namespace, there[name], context)
        for name in pod_request.claims
        if name in there and name not in unready and not there[name].volume
    ]
    waiting.sort(key=lambda each: each.claim.size)

    def check(node: Node) -> Iterator[Reason]:
        yield from everywhere
        for each in mounted:
            yield from _check_mounted(each, node)
        yield from check_waiting(waiting, node)

    return check


def _find_unready(claim: Claim | None, context: SchedulingContext) -> str:
    """Why a claim keeps a pod off every node."""
    if claim is None:
        return "which is not there"
    if claim.leaving:
        return "which is being deleted"
    if claim.lost or (claim.volume and claim.volume not in context.volumes):
        return f"whose volume {claim.volume} is not there"
    if claim.volume:
        return "" if claim.bound else f"which is not bound to its volume {claim.volume} yet"
    if not claim.storage_class:
        return "which has no volume, and no storage class that would make one"
    made_by = context.classes.get(claim.storage_class)
    if made_by is None:
        return f"which has no volume, and whose storage class {claim.storage_class} is not there"
    return "" if made_by.waits else "which has no volume yet"


def _find_used(claims: Mapping[str, Claim | None], pod_request: PodRequest, table: NodeTable) -> Iterator[Reason]:
    """Claims for one pod at a time that another pod has, on whichever node."""
    alone = {name for name, claim in claims.items() if claim is not None and ONE_POD in claim.modes}
    users = {
        name: f"{table.visible_name(held) or 'one'} on {node.name}"
        for node in (table.nodes if alone else ())
        for held in node.holdings
        if held.claims and held.namespace == pod_request.namespace
        for name in alone.intersection(held.claims)
    }
    for name, user in users.items():
        message = f"mounts claim {name}, which is for one pod at a time; {user} has it"
        yield Reason(Cause.IN_USE, f"volumes.{name}", message)


def _check_mounted(mounted: MountedVolume, node: Node) -> Iterator[Reason]:
    """Whether a node reaches a volume, and is in its zone. A node that says nothing of zones may be in any."""
    claim, volume, zones, reached_from = mounted
    if not reaches(node.labels, volume):
        message = f"{mounted} only reached from nodes with {reached_from}; not from {node.name}"
        yield Reason(Cause.VOLUME, f"volumes.{claim}", message, lasts=True)
    if not zones or not any(key in node.labels for key in ZONES):
        return
    for key, values in zones:
        found = node.labels.get(key, node.labels.get(NEW_NAMES.get(key, key)))
        if found not in values:
            message = f"{mounted} in {' or '.join(values)} ({key}); {node.name} is in {found or 'none'}"
            yield Reason(Cause.ZONE, f"volumes.{claim}", message, lasts=True)


def _show_reach(volume: Volume) -> str:
    terms = [term["matchExpressions"] for term in volume.node_terms or () if term.get("matchExpressions")]
    return " or ".join(" and ".join(map(show_expression, said)) for said in terms)


def _read_zones(volume: Volume) -> list[tuple[str, list[str]]]:
    """The zones and regions that a volume's labels say, by label; one with a gap in it says nothing."""
    said = [(key, volume.labels[key].split(BETWEEN_ZONES)) for key in ZONES if key in volume.labels]
    return [(key, values) for key, values in said if all(values)]

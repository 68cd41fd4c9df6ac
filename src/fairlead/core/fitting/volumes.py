"""Volumes that a pod mounts: binding, zones and node access, as kube-scheduler evaluates them."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from fairlead.core.fitting.matching import show_expression
from fairlead.core.fitting.node_tables import NodeTable
from fairlead.core.fitting.pod_requests import PodRequest
from fairlead.core.fitting.reasons import Cause, NodeCheck, Reason
from fairlead.core.fitting.volume_binding import can_access, check_unbound, find_volumes
from fairlead.model.nodes import Node, PersistentVolume, PersistentVolumeClaim, SchedulingContext

ONE_POD = "ReadWriteOncePod"
# The current names for deprecated zone and region labels.
NEW_NAMES = {
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
}
ZONES = (*NEW_NAMES, *NEW_NAMES.values())
ZONE_SEPARATOR = "__"  # between the zones of a volume that is replicated across several


class MountedVolume(NamedTuple):
    """The volume of a claim, its zones and regions by label, and the node labels required to access it."""

    claim: str
    volume: PersistentVolume
    zones: list[tuple[str, list[str]]]
    required_labels: str

    def __str__(self) -> str:  # the first part of a message
        return f"mounts claim {self.claim}, whose volume {self.volume.name} is"


def prepare(pod_request: PodRequest, table: NodeTable) -> NodeCheck | None:
    """A check for the volumes that a pod mounts, or None if it mounts none or the claims are unknown."""
    context = table.context
    if not pod_request.claims or context.claims is None:
        return None
    claims = {name: context.claims.get((pod_request.namespace, name)) for name in pod_request.claims}
    unusable = {name: problem for name, claim in claims.items() if (problem := _find_problem(claim, context))}
    on_every_node = [
        Reason(Cause.CLAIM, f"volumes.{name}", f"mounts claim {name}, {problem}") for name, problem in unusable.items()
    ]
    on_every_node += _find_in_use(claims, pod_request, table)
    existing = {name: claim for name, claim in claims.items() if claim is not None}
    mounted = [
        MountedVolume(name, volume, _read_zones(volume), _show_required_labels(volume))
        for name, claim in existing.items()
        if (volume := context.volumes.get(claim.volume)) is not None
    ]
    # If a claim is mounted twice, kube-scheduler looks for two volumes, so duplicates stay in the list.
    unbound = [
        find_volumes(name, pod_request.namespace, existing[name], context)
        for name in pod_request.claims
        if name in existing and name not in unusable and not existing[name].volume
    ]
    # kube-scheduler lets the smallest claim choose first.
    unbound.sort(key=lambda each: each.claim.size)

    def check(node: Node) -> Iterator[Reason]:
        yield from on_every_node
        for each in mounted:
            yield from _check_mounted(each, node)
        yield from check_unbound(unbound, node)

    return check


def _find_problem(claim: PersistentVolumeClaim | None, context: SchedulingContext) -> str:
    """Why a claim cannot be mounted on any node; empty if it can."""
    if claim is None:
        return "which does not exist"
    if claim.terminating:
        return "which is being deleted"
    if claim.lost or (claim.volume and claim.volume not in context.volumes):
        return f"whose volume {claim.volume} does not exist"
    if claim.volume:
        return "" if claim.bound else f"which is not bound to its volume {claim.volume} yet"
    if not claim.storage_class:
        return "which has neither a volume nor a storage class"
    storage_class = context.classes.get(claim.storage_class)
    if storage_class is None:
        return f"which has no volume, and its storage class {claim.storage_class} does not exist"
    # With immediate binding, kube-scheduler waits until the claim has a volume.
    return "" if storage_class.wait_for_first_consumer else "which has no volume yet"


def _find_in_use(
    claims: Mapping[str, PersistentVolumeClaim | None], pod_request: PodRequest, table: NodeTable
) -> Iterator[Reason]:
    """ReadWriteOncePod claims that another pod uses, on any node."""
    exclusive = {name for name, claim in claims.items() if claim is not None and ONE_POD in claim.modes}
    users = {
        name: f"{table.visible_name(pod) or 'a pod'} on {node.name}"
        for node in (table.nodes if exclusive else ())
        for pod in node.pods
        if pod.claims and pod.namespace == pod_request.namespace
        for name in exclusive.intersection(pod.claims)
    }
    for name, user in users.items():
        message = f"mounts claim {name}, which only one pod can use at a time; {user} uses it"
        yield Reason(Cause.IN_USE, f"volumes.{name}", message)


def _check_mounted(mounted: MountedVolume, node: Node) -> Iterator[Reason]:
    claim, volume, zones, required_labels = mounted
    if not can_access(node.labels, volume):
        message = f"{mounted} only accessible from nodes with {required_labels}, not from {node.name}"
        yield Reason(Cause.VOLUME, f"volumes.{claim}", message, lasts=True)
    if not zones or not any(key in node.labels for key in ZONES):
        return  # a node without zone labels may be in any zone
    for key, values in zones:
        zone = node.labels.get(key, node.labels.get(NEW_NAMES.get(key, key)))
        if zone not in values:
            message = f"{mounted} in {' or '.join(values)} ({key}); {node.name} is in {zone or 'none'}"
            yield Reason(Cause.ZONE, f"volumes.{claim}", message, lasts=True)


def _show_required_labels(volume: PersistentVolume) -> str:
    terms = [term["matchExpressions"] for term in volume.node_terms or () if term.get("matchExpressions")]
    return " or ".join(" and ".join(map(show_expression, term)) for term in terms)


def _read_zones(volume: PersistentVolume) -> list[tuple[str, list[str]]]:
    """The zones and regions of a volume by label, without labels that contain an empty zone."""
    zones = [(key, volume.labels[key].split(ZONE_SEPARATOR)) for key in ZONES if key in volume.labels]
    return [(key, values) for key, values in zones if all(values)]

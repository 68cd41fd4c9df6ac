"""Volumes that a pod mounts: binding, zones and node access, as kube-scheduler evaluates them."""

from collections.abc import Iterator, Mapping, Sequence
from heapq import merge
from typing import NamedTuple

from fairlead.model.nodes import (
    Labels,
    Node,
    NodeTable,
    PersistentVolume,
    PersistentVolumeClaim,
    PodRequest,
    SchedulingContext,
    StorageClass,
    Term,
)
from fairlead.scheduling.reasons import Cause, NodeCheck, Reason
from fairlead.scheduling.selectors import selects, show_expression

ONE_POD = "ReadWriteOncePod"
# The current names for deprecated zone and region labels.
NEW_NAMES = {
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
}
ZONES = (*NEW_NAMES, *NEW_NAMES.values())
ZONE_SEPARATOR = "__"  # between the zones of a volume that is replicated across several


class VolumeIndex:
    """Free volumes, smallest first, indexed by the node labels that give access to them.

    With local disks there may be several volumes per node, so a search must not go through all of them.
    """

    def __init__(self, volumes: Sequence[PersistentVolume]) -> None:
        self._volumes = sorted(volumes, key=lambda volume: volume.size)
        self._anywhere: list[int] = []
        self._by_label: dict[str, dict[str, list[int]]] = {}
        for position, volume in enumerate(self._volumes):
            # One In condition per term is enough for the index: can_access checks all conditions.
            terms = volume.node_terms
            labels = [_find_values(term) for term in terms or ()]
            # A term without such a condition cannot be indexed, so the volume is a candidate on every node.
            if terms is None or None in labels:
                self._anywhere.append(position)
                continue
            for key, value in {(label[0], value) for label in labels if label for value in label[1]}:
                self._by_label.setdefault(key, {}).setdefault(value, []).append(position)

    def find(self, labels: Labels, taken: set[str]) -> PersistentVolume | None:
        """The smallest volume that is not taken and is accessible from a node with these labels."""
        indexed = [positions[labels[key]] for key, positions in self._by_label.items() if labels.get(key) in positions]
        # Positions are sorted by size: as in kube-scheduler, a claim takes the smallest suitable volume.
        for position in merge(self._anywhere, *indexed):
            volume = self._volumes[position]
            if volume.name not in taken and can_access(labels, volume):
                return volume
        return None


class UnboundClaim(NamedTuple):
    """A claim without a volume, and the volumes that are either reserved for it or free."""

    name: str
    claim: PersistentVolumeClaim
    storage_class: StorageClass
    reserved: list[PersistentVolume]
    free: VolumeIndex

    def find(self, labels: Labels, taken: set[str]) -> PersistentVolume | None:
        """The existing volume that the claim would be bound to on a node with these labels."""
        reserved = next((volume for volume in self.reserved if volume.name not in taken), None)
        # A claim with a reserved volume takes no other volume, even if the node cannot access the reserved one.
        if reserved is not None:
            return reserved if can_access(labels, reserved) else None
        return self.free.find(labels, taken)


def can_access(labels: Labels, volume: PersistentVolume) -> bool:
    """Whether a volume is accessible from a node with these labels."""
    if volume.node_terms is None:
        return True
    # kube-scheduler ignores matchFields here.
    return any(any(term.values()) and selects(term, labels) for term in volume.node_terms)


def find_volumes(name: str, namespace: str, claim: PersistentVolumeClaim, context: SchedulingContext) -> UnboundClaim:
    """An unbound claim with the volumes that it could be bound to."""
    compatible = [volume for volume in context.volumes.values() if _is_compatible(volume, claim)]
    reserved = [volume for volume in compatible if volume.claimed_by == (namespace, name)]
    free = [volume for volume in compatible if volume.claimed_by is None and _is_free_for(volume, claim)]
    return UnboundClaim(
        name,
        claim,
        context.classes[claim.storage_class or ""],
        # A volume that was reserved for an earlier claim with this name has a different claim UID.
        [volume for volume in reserved if volume.claim_uid in ("", claim.uid)],
        VolumeIndex(free),
    )


def check_unbound(claims: Sequence[UnboundClaim], node: Node) -> Iterator[Reason]:
    """A reason for each claim that would not get a volume on a node. Claims choose volumes in the given order."""
    taken: set[str] = set()  # two claims of a pod must not get the same volume
    for unbound in claims:
        chosen_node, class_name = unbound.claim.chosen_node, unbound.claim.storage_class
        # kube-scheduler has already chosen a node, and the volume may only be accessible from that node.
        if chosen_node not in ("", node.name):
            yield _reject(unbound, f"one is being provisioned on {chosen_node}, not on {node.name}")
        elif not chosen_node and (volume := unbound.find(node.labels, taken)) is not None:
            taken.add(volume.name)
        elif not unbound.storage_class.provisions:
            yield _reject(unbound, f"no suitable volume of class {class_name} is free on {node.name}")
        elif not _provisions_on(unbound.storage_class, node.labels):
            allowed = f"nodes with {_show_topologies(unbound.storage_class)}"
            message = f"class {class_name} provisions volumes only on {allowed}, not on {node.name}"
            yield _reject(unbound, message, lasts=True)


def _reject(unbound: UnboundClaim, problem: str, *, lasts: bool = False) -> Reason:
    message = f"mounts claim {unbound.name}, which has no volume yet; {problem}"
    return Reason(Cause.VOLUME, f"volumes.{unbound.name}", message, lasts=lasts)


def _is_compatible(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    return (
        volume.storage_class == claim.storage_class
        and volume.size >= claim.size
        and volume.block == claim.block
        and volume.attributes_class == claim.attributes_class
        and not volume.terminating
    )


def _is_free_for(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    # Volumes in phases other than Available may still be bound to another claim, or being cleaned up after one.
    selected = claim.selector is None or selects(claim.selector, volume.labels)
    return volume.available and selected and set(claim.modes) <= set(volume.modes)


def _provisions_on(storage_class: StorageClass, labels: Labels) -> bool:
    """Whether a class provisions volumes on a node with these labels. Without allowed topologies, all nodes match."""
    terms = [term.get("matchLabelExpressions") or () for term in storage_class.topologies]
    # As with node affinity, a term without conditions matches no node.
    return not terms or any(term and all(labels.get(each["key"]) in each["values"] for each in term) for term in terms)


def _show_topologies(storage_class: StorageClass) -> str:
    terms = [term.get("matchLabelExpressions") or () for term in storage_class.topologies]
    shown = [" and ".join(show_expression({"operator": "In", **label}) for label in term) for term in terms if term]
    return " or ".join(shown) or "no labels"


def _find_values(term: Term) -> tuple[str, Sequence[str]] | None:
    """A label and the values that a term allows for it, or None if the term lists no values."""
    expressions = term.get("matchExpressions") or ()
    return next(((each["key"], each["values"]) for each in expressions if each["operator"] == "In"), None)


class MountedVolume(NamedTuple):
    """The volume of a claim, its zones and regions by label, and the node labels required to access it."""

    claim: str
    volume: PersistentVolume
    zones: list[tuple[str, list[str]]]
    required_labels: str

    def __str__(self) -> str:  # the first part of a message
        return f"mounts claim {self.claim}, whose volume {self.volume.name} is"


def prepare_volume_check(pod_request: PodRequest, table: NodeTable) -> NodeCheck | None:
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

"""Volume binding for claims that get their volume when a node is chosen (WaitForFirstConsumer)."""

from collections.abc import Iterator, Sequence
from heapq import merge
from typing import NamedTuple

from fairlead.core.fitting.label_selectors import selects
from fairlead.core.fitting.matching import show_expression
from fairlead.core.fitting.reasons import Cause, Reason
from fairlead.model.nodes import (
    Labels,
    Node,
    PersistentVolume,
    PersistentVolumeClaim,
    SchedulingContext,
    StorageClass,
    Term,
)


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

"""Claims that get their volume once a node is chosen: whether they would get one there."""

from collections.abc import Iterator, Sequence
from heapq import merge
from typing import NamedTuple

from fairlead.core.fitting.label_selectors import selects
from fairlead.core.fitting.matching import show_expression
from fairlead.core.fitting.reasons import Cause, Reason
from fairlead.model.nodes import Claim, Labels, Node, SchedulingContext, StorageClass, Term, Volume


class VolumeIndex:
    """Volumes of which a claim may have any, smallest first, laid out by a label of the nodes that reach them.

    There may be one for each disk of each node: a node looks only at those that could be its own.
    """

    def __init__(self, volumes: Sequence[Volume]) -> None:
        self._volumes = sorted(volumes, key=lambda volume: volume.size)
        self._anywhere: list[int] = []
        self._labelled: dict[str, dict[str, list[int]]] = {}
        for position, volume in enumerate(self._volumes):
            terms = volume.node_terms
            found = [_find_values(term) for term in terms or ()]
            if terms is None or None in found:
                self._anywhere.append(position)
                continue
            for key, value in {(said[0], value) for said in found if said for value in said[1]}:
                self._labelled.setdefault(key, {}).setdefault(value, []).append(position)

    def find(self, labels: Labels, taken: set[str]) -> Volume | None:
        """The smallest volume that a node with these labels reaches and that is not taken."""
        near = [places[labels[key]] for key, places in self._labelled.items() if labels.get(key) in places]
        for position in merge(self._anywhere, *near):
            volume = self._volumes[position]
            if volume.name not in taken and reaches(labels, volume):
                return volume
        return None


class UnboundClaim(NamedTuple):
    """A claim without a volume, and where it could get one: kept for it, free, or made."""

    name: str
    claim: Claim
    made_by: StorageClass
    kept: list[Volume]
    free: VolumeIndex

    def find(self, labels: Labels, taken: set[str]) -> Volume | None:
        """The volume of those that are there that it would get on a node with these labels."""
        kept = next((volume for volume in self.kept if volume.name not in taken), None)
        if kept is not None:
            return kept if reaches(labels, kept) else None
        return self.free.find(labels, taken)


def reaches(labels: Labels, volume: Volume) -> bool:
    """Whether a node with these labels reaches a volume. kube-scheduler does not look at fields: they always hold."""
    if volume.node_terms is None:
        return True
    return any(any(term.values()) and selects(term, labels) for term in volume.node_terms)


def wait(name: str, namespace: str, claim: Claim, context: SchedulingContext) -> UnboundClaim:
    """A claim with the volumes that it could get. One that is kept for it need not be like what it asks for."""
    suited = [volume for volume in context.volumes.values() if _suits(volume, claim)]
    kept = [volume for volume in suited if volume.claimed_by == (namespace, name)]
    free = [volume for volume in suited if volume.claimed_by is None and _is_free_for(volume, claim)]
    return UnboundClaim(
        name,
        claim,
        context.classes[claim.storage_class or ""],
        [volume for volume in kept if volume.claim_uid in ("", claim.uid)],
        VolumeIndex(free),
    )


def check_waiting(waiting: Sequence[UnboundClaim], node: Node) -> Iterator[Reason]:
    """Each claim that would get no volume on a node. They choose in this order."""
    taken: set[str] = set()
    for each in waiting:
        chosen, of_class = each.claim.chosen_node, each.claim.storage_class
        if chosen not in ("", node.name):
            yield _refuse(each, f"one is being made on {chosen}, not on {node.name}")
        elif not chosen and (volume := each.find(node.labels, taken)) is not None:
            taken.add(volume.name)
        elif not each.made_by.makes:
            yield _refuse(each, f"none of class {of_class} that would do is free on {node.name}")
        elif not _makes_on(each.made_by, node.labels):
            where = _show_topologies(each.made_by)
            yield _refuse(each, f"class {of_class} makes them on nodes with {where}; not on {node.name}", lasts=True)


def _refuse(waiting: UnboundClaim, why: str, *, lasts: bool = False) -> Reason:
    message = f"mounts claim {waiting.name}, which has no volume yet; {why}"
    return Reason(Cause.VOLUME, f"volumes.{waiting.name}", message, lasts=lasts)


def _suits(volume: Volume, claim: Claim) -> bool:
    return (
        volume.storage_class == claim.storage_class
        and volume.size >= claim.size
        and volume.block == claim.block
        and volume.attributes_class == claim.attributes_class
        and not volume.leaving
    )


def _is_free_for(volume: Volume, claim: Claim) -> bool:
    selected = claim.selector is None or selects(claim.selector, volume.labels)
    return volume.available and selected and set(claim.modes) <= set(volume.modes)


def _makes_on(made_by: StorageClass, labels: Labels) -> bool:
    """Whether a class makes volumes on a node with these labels: where it says nothing, on each."""
    terms = [term.get("matchLabelExpressions") or () for term in made_by.topologies]
    return not terms or any(said and all(labels.get(each["key"]) in each["values"] for each in said) for said in terms)


def _show_topologies(made_by: StorageClass) -> str:
    terms = [term.get("matchLabelExpressions") or () for term in made_by.topologies]
    shown = [" and ".join(show_expression({"operator": "In", **said}) for said in term) for term in terms if term]
    return " or ".join(shown) or "no labels at all"


def _find_values(term: Term) -> tuple[str, Sequence[str]] | None:
    """A label and its values of which a node must have one for the term to hold; None where it names none."""
    expressions = term.get("matchExpressions") or ()
    return next(((said["key"], said["values"]) for said in expressions if said["operator"] == "In"), None)

"""What a run asks of a node, read off its pod."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from fairlead.model.nodes import Amounts
from fairlead.model.plans import Manifest
from fairlead.model.quantities import NANOS, Quantity

PODS = "pods"
# By scheduler, the endings of a GPU's resource that only the scheduler deals out: no node says that it has them.
UNLISTED: Mapping[str | None, tuple[str, ...]] = {"hami-scheduler": ("mem", "mem-percentage", "cores")}


class Reason(NamedTuple):
    """Why a node does not take a run: what of the request is in the way, and a sentence with numbers."""

    path: str
    message: str


@dataclass(frozen=True)
class Ask:
    """What one pod needs: amounts, the labels that its node must have, and the taints that it may have."""

    amounts: Amounts
    node_selector: Mapping[str, str] = field(default_factory=dict)
    node_terms: tuple[Mapping[str, Any], ...] | None = None  # of which one must hold; None: any node will do
    tolerations: tuple[Mapping[str, Any], ...] = ()


def read_ask(manifests: Sequence[Manifest]) -> Ask:
    """What the pods of a run's main object ask for, each."""
    return read_pod(manifests[0]["spec"]["template"]["spec"])


def read_pod(spec: Mapping[str, Any]) -> Ask:
    """What a pod with one container asks for."""
    said = spec["containers"][0].get("resources", {}).get("requests", {})
    unlisted = {f"{name}{ending}" for name in said for ending in UNLISTED.get(spec.get("schedulerName"), ())}
    amounts = {name: Quantity.parse(text).nanos for name, text in said.items() if name not in unlisted}
    required = (
        spec.get("affinity", {}).get("nodeAffinity", {}).get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    )
    terms = required.get("nodeSelectorTerms")
    return Ask(
        amounts={**amounts, PODS: NANOS},
        node_selector=spec.get("nodeSelector", {}),
        node_terms=None if terms is None else tuple(terms),
        tolerations=tuple(spec.get("tolerations", ())),
    )

"""What a run asks of a node, read off its pod."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from fairlead.model.nodes import Amounts
from fairlead.model.plans import Manifest
from fairlead.model.quantities import NANOS, Quantity

PODS = "pods"


class Reason(NamedTuple):
    """Why a node does not take a run: what of the request is in the way, and a sentence with numbers."""

    path: str
    message: str


@dataclass(frozen=True)
class Ask:
    """What one pod needs: amounts, and the labels that its node must have."""

    amounts: Amounts
    node_selector: Mapping[str, str] = field(default_factory=dict)
    node_terms: tuple[Mapping[str, Any], ...] | None = None  # of which one must hold; None: any node will do


def read_ask(manifests: Sequence[Manifest]) -> Ask:
    """What the pods of a run's main object ask for, each."""
    spec = manifests[0]["spec"]["template"]["spec"]
    said = spec["containers"][0].get("resources", {}).get("requests", {})
    amounts = {name: Quantity.parse(text).nanos for name, text in said.items()}
    required = (
        spec.get("affinity", {}).get("nodeAffinity", {}).get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    )
    terms = required.get("nodeSelectorTerms")
    return Ask(
        amounts={**amounts, PODS: NANOS},
        node_selector=spec.get("nodeSelector", {}),
        node_terms=None if terms is None else tuple(terms),
    )

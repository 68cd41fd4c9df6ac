"""Kubernetes label selectors for pods, namespaces and volumes."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from fairlead.core.fitting.matching import OPERATORS, show_expression
from fairlead.model.nodes import Labels

Selector = Mapping[str, Any]  # a LabelSelector as JSON


def selects(selector: Selector | None, labels: Labels) -> bool:
    """Whether labels match a selector. None matches nothing, an empty selector matches everything."""
    if selector is None:
        return False
    for key, value in (selector.get("matchLabels") or {}).items():
        # Kubernetes treats a missing label as different from every value, even an empty one.
        if labels.get(key) != value:
            return False
    for requirement in selector.get("matchExpressions") or ():
        if not OPERATORS[requirement["operator"]](labels.get(requirement["key"]), requirement.get("values") or ()):
            return False
    return True


def compile_selector(selector: Selector | None) -> Callable[[Labels], bool]:
    """Compile a selector into a function that tests labels as `selects` does, for use on many pods."""
    required = list(((selector or {}).get("matchLabels") or {}).items())
    if selector is None or selector.get("matchExpressions") or len(required) != 1:
        return lambda labels: selects(selector, labels)
    # Most selectors have exactly one label, and comparing it directly takes a third of the time.
    key, value = required[0]
    return lambda labels: labels.get(key) == value


def is_empty(selector: Selector | None) -> bool:
    """Whether a selector matches everything."""
    return selector is not None and not (selector.get("matchLabels") or selector.get("matchExpressions"))


def merge_keys(selector: Selector | None, operator: str, keys: Iterable[str], labels: Labels) -> Selector | None:
    """Merge matchLabelKeys (operator In) or mismatchLabelKeys (NotIn) into a selector, with the pod's own label values.

    The API server merges them when a pod is created, so keys that are already merged are skipped.
    """
    if selector is None:
        return None
    requirements = list(selector.get("matchExpressions") or ())
    merged = {requirement["key"] for requirement in requirements if requirement["operator"] == operator}
    own = [
        {"key": key, "operator": operator, "values": [labels[key]]}
        for key in keys
        # Kubernetes ignores keys that the pod itself does not have.
        if key in labels and key not in merged
    ]
    return {**selector, "matchExpressions": [*requirements, *own]} if own else selector


def show_pods(selector: Selector | None) -> str:
    """A description of the selected pods, for messages."""
    if selector is None:
        return "no pods"
    parts = [f"{key}={value}" for key, value in (selector.get("matchLabels") or {}).items()]
    parts += map(show_expression, selector.get("matchExpressions") or ())
    return f"pods with {' and '.join(parts)}" if parts else "any pods"

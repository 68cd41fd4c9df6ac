"""Label selectors, by which Kubernetes tells pods, namespaces and volumes from one another."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from fairlead.core.fitting.matching import OPERATORS, show_expression
from fairlead.model.nodes import Labels

Selector = Mapping[str, Any]  # as Kubernetes writes it


def selects(selector: Selector | None, labels: Labels) -> bool:
    """Whether labels are those of something that is meant. No selector means nothing, an empty one everything."""
    if selector is None:
        return False
    for key, value in (selector.get("matchLabels") or {}).items():
        if labels.get(key) != value:
            return False
    for said in selector.get("matchExpressions") or ():
        if not OPERATORS[said["operator"]](labels.get(said["key"]), said.get("values") or ()):
            return False
    return True


def compile_selector(selector: Selector | None) -> Callable[[Labels], bool]:
    """The same test for many pods. Most selectors ask for one label: that is three times as quick."""
    asked = list(((selector or {}).get("matchLabels") or {}).items())
    if selector is None or selector.get("matchExpressions") or len(asked) != 1:
        return lambda labels: selects(selector, labels)
    key, value = asked[0]
    return lambda labels: labels.get(key) == value


def is_empty(selector: Selector | None) -> bool:
    """Whether everything is meant."""
    return selector is not None and not (selector.get("matchLabels") or selector.get("matchExpressions"))


def merge_keys(selector: Selector | None, operator: str, keys: Iterable[str], labels: Labels) -> Selector | None:
    """The selector, which also asks for (or, with NotIn, excludes) a pod's own values of some labels.

    Kubernetes' server does this to each pod that it is given: what has been merged once is not merged again.
    """
    if selector is None:
        return None
    there = list(selector.get("matchExpressions") or ())
    merged = {said["key"] for said in there if said["operator"] == operator}
    own = [
        {"key": key, "operator": operator, "values": [labels[key]]}
        for key in keys
        if key in labels and key not in merged
    ]
    return {**selector, "matchExpressions": [*there, *own]} if own else selector


def show_pods(selector: Selector | None) -> str:
    """The pods that are meant, in a sentence."""
    if selector is None:
        return "no pods"
    parts = [f"{key}={value}" for key, value in (selector.get("matchLabels") or {}).items()]
    parts += map(show_expression, selector.get("matchExpressions") or ())
    return f"pods with {' and '.join(parts)}" if parts else "any pods"

"""Affinity: splitting it into parts, merging the parts of several layers, and detecting contradictions."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fairlead.model.placement import Affinity

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
REQUIRED_NODES = f"nodeAffinity.{REQUIRED}"

MAX_TERMS = 256  # in all layers combined; two layers with 64 terms each would already produce 4,096

Term = Mapping[str, Any]


def parts_of(affinity: Affinity) -> Iterator[tuple[str, list[Term]]]:
    """The lists of terms of an affinity, by path such as `podAffinity.requiredDuring...`."""
    for kind, group in affinity.manifest.items():
        for name, terms in group.items():
            term_list = terms["nodeSelectorTerms"] if f"{kind}.{name}" == REQUIRED_NODES else terms
            if term_list:
                yield f"{kind}.{name}", list(term_list)


def combine(part: str, weaker: Sequence[Term], stronger: Sequence[Term]) -> list[Term]:
    """Merge the terms of two layers: required nodes must match both, other terms are added."""
    if part == REQUIRED_NODES:
        # A check rejects plans with too many terms, so the large product is never needed.
        return cross_terms(weaker, stronger) if len(weaker) * len(stronger) <= MAX_TERMS else list(weaker)
    return [*weaker, *(term for term in stronger if term not in weaker)]


def cross_terms(one: Sequence[Term], other: Sequence[Term]) -> list[Term]:
    """The conjunction of two node selectors: (a or b) and (c or d) is ac or ad or bc or bd."""
    # A term without conditions matches no node, and neither does its conjunction with another term.
    crossed = [_join(left, right) for left in one if any(left.values()) for right in other if any(right.values())]
    # An empty term matches no node. The API server would reject an empty list.
    return _distinct(crossed) or [{}]


def is_impossible(selector: Mapping[str, str], terms: Sequence[Term] | None) -> bool:
    """Whether no set of labels can match both the selector and one of the terms."""
    return terms is not None and all(_contradicts(selector, term) for term in terms)


def render_affinity(parts: Mapping[str, Sequence[Term]]) -> dict[str, Any]:
    """The affinity for a pod manifest, from lists of terms by path."""
    affinity: dict[str, Any] = {}
    for path, terms in sorted(parts.items()):
        kind, _, name = path.partition(".")
        value = {"nodeSelectorTerms": list(terms)} if path == REQUIRED_NODES else list(terms)
        affinity.setdefault(kind, {})[name] = value
    return affinity


def _join(left: Term, right: Term) -> Term:
    joined = {name: list(conditions) for name, conditions in left.items() if conditions}
    for name, conditions in right.items():
        known = joined.get(name, [])
        if added := [condition for condition in conditions if condition not in known]:
            joined[name] = [*known, *added]
    return joined


def _distinct(items: Sequence[Any]) -> list[Any]:
    return [item for index, item in enumerate(items) if item not in items[:index]]


def _contradicts(selector: Mapping[str, str], term: Term) -> bool:
    """Whether the conditions of a term contradict each other or the selector."""
    if not any(term.values()):
        return True
    allowed: dict[str, set[str]] = {key: {value} for key, value in selector.items()}
    present, absent = set(selector), set()
    conditions = term.get("matchExpressions", ())
    for condition in conditions:
        key, operator, values = condition["key"], condition["operator"], set(condition.get("values", ()))
        if operator == "In":
            allowed[key] = allowed.get(key, values) & values
        if operator in ("In", "Exists", "Gt", "Lt"):
            present.add(key)
        if operator == "DoesNotExist":
            absent.add(key)
    # All In conditions are known here. NotIn also matches nodes without the label, so without an In condition it
    # never causes a contradiction.
    for condition in conditions:
        if condition["operator"] == "NotIn" and condition["key"] in allowed:
            allowed[condition["key"]] -= set(condition["values"])
    return bool(present & absent) or any(not values for values in allowed.values())

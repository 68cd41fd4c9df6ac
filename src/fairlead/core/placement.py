"""Where a run may be placed: taking affinity apart and putting it together, and seeing that it contradicts itself."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fairlead.model.placement import Affinity

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
REQUIRED_NODES = f"nodeAffinity.{REQUIRED}"

MOST_CROSSED = 256

Term = Mapping[str, Any]


def parts_of(affinity: Affinity) -> Iterator[tuple[str, list[Term]]]:
    """The lists of terms of an affinity, by path: nodes, pods and pods to avoid, required and preferred."""
    for kind, group in affinity.manifest.items():
        for name, terms in group.items():
            listed = terms["nodeSelectorTerms"] if f"{kind}.{name}" == REQUIRED_NODES else terms
            if listed:
                yield f"{kind}.{name}", list(listed)


def combine(part: str, weaker: Sequence[Term], stronger: Sequence[Term]) -> list[Term]:
    """The terms of two layers together: required nodes must suit both, everything else adds up."""
    if part == REQUIRED_NODES:
        # Where there would be too many, the plan is refused by a check: the product is never made.
        return cross_terms(weaker, stronger) if len(weaker) * len(stronger) <= MOST_CROSSED else list(weaker)
    return [*weaker, *(term for term in stronger if term not in weaker)]


def cross_terms(one: Sequence[Term], other: Sequence[Term]) -> list[Term]:
    """Node terms that hold where a term of each side holds: (a or b) and (c or d) is ac or ad or bc or bd."""
    # A term without conditions matches no node, so nothing that is crossed with it may match one either.
    crossed = [_join(left, right) for left in one if any(left.values()) for right in other if any(right.values())]
    return _distinct(crossed) or [{}]


def is_impossible(selector: Mapping[str, str], terms: Sequence[Term] | None) -> bool:
    """Whether no node could suit the selector and any of the terms, whatever its labels are."""
    return terms is not None and all(_contradicts(selector, term) for term in terms)


def render_affinity(parts: Mapping[str, Sequence[Term]]) -> dict[str, Any]:
    """The affinity of a pod, from its lists of terms by path."""
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
    """Whether a term's conditions exclude each other, or what the selector asks for."""
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
    for condition in conditions:
        if condition["operator"] == "NotIn" and condition["key"] in allowed:
            allowed[condition["key"]] -= set(condition["values"])
    return bool(present & absent) or any(not values for values in allowed.values())

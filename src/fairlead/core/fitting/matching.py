"""Whether a node's labels are what a run asks for, as kube-scheduler sees it."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from fairlead.core.fitting.asking import Ask, Reason
from fairlead.model.nodes import Node

WHOLE = re.compile(r"[+-]?[0-9]{1,18}", re.ASCII)
OPERATORS: Mapping[str, Callable[[str | None, list[str]], bool]] = {
    "In": lambda value, wanted: value in wanted,
    "NotIn": lambda value, wanted: value not in wanted,
    "Exists": lambda value, _: value is not None,
    "DoesNotExist": lambda value, _: value is None,
    "Gt": lambda value, wanted: _compares(value, wanted, 1),
    "Lt": lambda value, wanted: _compares(value, wanted, -1),
}


def find_mismatches(ask: Ask, node: Node) -> Iterator[Reason]:
    """Each label that the node lacks, in words."""
    for key, value in ask.node_selector.items():
        if node.labels.get(key) != value:
            found = node.labels.get(key)
            has = "no such label" if found is None else f"{key}={found}"
            yield Reason(f"node_selector.{key}", f"asks for a node with {key}={value}; {node.name} has {has}")
    if ask.node_terms is not None and not any(_matches(term, node) for term in ask.node_terms):
        yield from _explain(ask.node_terms, node)


def _matches(term: Mapping[str, Any], node: Node) -> bool:
    """All of a term hold; one without anything in it holds of no node."""
    expressions = [(node.labels, said) for said in term.get("matchExpressions") or ()]
    expressions += [({"metadata.name": node.name}, said) for said in term.get("matchFields") or ()]
    return bool(expressions) and all(
        OPERATORS[said["operator"]](labels.get(said["key"]), list(said.get("values") or ()))
        for labels, said in expressions
    )


def _explain(terms: Sequence[Mapping[str, Any]], node: Node) -> Iterator[Reason]:
    """What a node lacks of the only term; of several, that none of them holds."""
    if len(terms) != 1 or not any(terms[0].values()):
        yield Reason("affinity", f"none of the terms of its node affinity holds of {node.name}")
        return
    for said in terms[0].get("matchExpressions") or ():
        found = node.labels.get(said["key"])
        if not OPERATORS[said["operator"]](found, list(said.get("values") or ())):
            path = "resources.gpu.type" if said["key"].endswith("gpu.product") else "affinity"
            wanted = f"{said['key']} {said['operator']} {', '.join(said.get('values') or ())}".strip()
            yield Reason(path, f"asks for a node with {wanted}; {node.name} has {found or 'no such label'}")
    for said in terms[0].get("matchFields") or ():
        yield Reason("affinity", f"asks for a node named {', '.join(said.get('values') or ())}; this is {node.name}")


def _compares(value: str | None, wanted: list[str], sign: int) -> bool:
    numbers = [text for text in (value, *wanted[:1]) if text is not None and WHOLE.fullmatch(text)]
    return len(numbers) == 2 and (int(numbers[0]) - int(numbers[1])) * sign > 0

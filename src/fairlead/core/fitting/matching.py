"""Whether a node's labels and taints suit a run, as kube-scheduler sees it."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from fairlead.core.fitting.asking import Ask, Reason
from fairlead.model.nodes import Node, Taint

WHOLE = re.compile(r"[+-]?[0-9]{1,18}", re.ASCII)
OPERATORS: Mapping[str, Callable[[str | None, list[str]], bool]] = {
    "In": lambda value, wanted: value in wanted,
    "NotIn": lambda value, wanted: value not in wanted,
    "Exists": lambda value, _: value is not None,
    "DoesNotExist": lambda value, _: value is None,
    "Gt": lambda value, wanted: _compares(value, wanted, 1),
    "Lt": lambda value, wanted: _compares(value, wanted, -1),
}


# What keeps pods off a node; the third effect, PreferNoSchedule, is only a wish.
KEEPS_OFF = ("NoSchedule", "NoExecute")
CORDONED = Taint("node.kubernetes.io/unschedulable", "", "NoSchedule")
# What Kubernetes itself says of nodes that are not well, and takes back: not ready, under pressure, not set up yet.
PASSING = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/")


def find_mismatches(ask: Ask, node: Node) -> Iterator[Reason]:
    """Each label that the node lacks, that it takes nothing new, and each taint that is not tolerated, in words."""
    for key, value in ask.node_selector.items():
        if node.labels.get(key) != value:
            found = node.labels.get(key)
            has = "no such label" if found is None else f"{key}={found}"
            yield Reason(f"node_selector.{key}", f"asks for a node with {key}={value}; {node.name} has {has}")
    if not suits_terms(ask, node):
        yield from _explain(ask.node_terms or (), node)
    if is_cordoned(ask, node):
        yield Reason("", f"{node.name} is cordoned: it takes nothing new")
    for taint in find_taints(ask, node):
        yield Reason("tolerations", f"{node.name} is tainted {taint}, which is not tolerated")


def suits_labels(ask: Ask, node: Node) -> bool:
    """Whether the node has all labels that are asked for."""
    return ask.node_selector.items() <= node.labels.items() and suits_terms(ask, node)


def suits_terms(ask: Ask, node: Node) -> bool:
    """Whether a term of the node affinity holds, where there is one."""
    return ask.node_terms is None or any(_matches(term, node) for term in ask.node_terms)


def show_terms(terms: Sequence[Mapping[str, Any]]) -> str:
    """What a node must have, in a sentence: all of the only term, or one of several."""
    if len(terms) != 1 or not any(terms[0].values()):
        return f"what its node affinity asks for ({len(terms)} terms)"
    said = (*(terms[0].get("matchExpressions") or ()), *(terms[0].get("matchFields") or ()))
    return " and ".join(map(_show, said))


def is_cordoned(ask: Ask, node: Node) -> bool:
    """Whether the node takes nothing new; who tolerates the taint of such a node is taken all the same."""
    return node.unschedulable and not _is_tolerated(CORDONED, ask)


def find_taints(ask: Ask, node: Node) -> list[Taint]:
    """The taints that keep it off the node. That of a cordoned one is none: it says no more than that it is."""
    untolerated = [taint for taint in node.taints if taint.effect in KEEPS_OFF and not _is_tolerated(taint, ask)]
    cordoned = bool(untolerated) and is_cordoned(ask, node)
    return [taint for taint in untolerated if not (cordoned and taint.key == CORDONED.key)]


def is_passing(taint: Taint) -> bool:
    """Whether a taint says how a node is, and not what it is for."""
    return taint.key.startswith(PASSING)


def at_best(node: Node) -> Node:
    """The node if nothing ran there, and it were well."""
    lasting = tuple(taint for taint in node.taints if not is_passing(taint))
    return replace(node, holdings=(), unschedulable=False, taints=lasting)


def _is_tolerated(taint: Taint, ask: Ask) -> bool:
    return any(_tolerates(toleration, taint) for toleration in ask.tolerations)


def _tolerates(toleration: Mapping[str, Any], taint: Taint) -> bool:
    """Without an effect or a key it is about all of them."""
    if toleration.get("effect") not in (None, "", taint.effect) or toleration.get("key") not in (None, "", taint.key):
        return False
    if toleration.get("operator") == "Exists":
        return True
    return toleration.get("operator") in (None, "", "Equal") and (toleration.get("value") or "") == taint.value


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
            yield Reason(path, f"asks for a node with {_show(said)}; {node.name} has {found or 'no such label'}")
    for said in terms[0].get("matchFields") or ():
        yield Reason("affinity", f"asks for a node named {', '.join(said.get('values') or ())}; this is {node.name}")


def _compares(value: str | None, wanted: list[str], sign: int) -> bool:
    numbers = [text for text in (value, *wanted[:1]) if text is not None and WHOLE.fullmatch(text)]
    return len(numbers) == 2 and (int(numbers[0]) - int(numbers[1])) * sign > 0


def _show(said: Mapping[str, Any]) -> str:
    return f"{said['key']} {said['operator']} {', '.join(said.get('values') or ())}".strip()

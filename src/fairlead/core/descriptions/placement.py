"""On which nodes a pod may run, and under which classes."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fairlead.core.descriptions.facts import Facts, describe_source, format_list, is_set
from fairlead.core.placement import REQUIRED, REQUIRED_NODES
from fairlead.model.plans import Sentence

MOST_TERMS = 3
BESIDE: Mapping[tuple[str, bool], str] = {
    ("podAffinity", True): "Only beside",
    ("podAffinity", False): "Rather beside",
    ("podAntiAffinity", True): "Never beside",
    ("podAntiAffinity", False): "Rather not beside",
}
CLASSES: Mapping[str, str] = {
    "runtime_class": "It runs under the runtime class {}, which its cluster must have.",
    "priority_class": "It has the priority class {} of its cluster, which says who is placed first and who gives way.",
}

Json = Mapping[str, Any]


def describe_nodes(facts: Facts) -> Iterator[Sentence]:
    """Labels and taints of nodes."""
    for key, setting in facts.below("node_selector").items():
        yield Sentence(setting.path, "note", f"Only on nodes with {key}={_quote(setting.value)}.")
        yield from describe_source(facts, setting.path, setting)
    for setting in facts.below("tolerations").values():
        yield _describe_toleration(setting.path, setting.value)
        yield from describe_source(facts, setting.path, setting)


def describe_affinity(facts: Facts) -> Iterator[Sentence]:
    """What the nodes must be like, and which pods must be there or not."""
    for name, setting in facts.below("affinity").items():
        kind, _, strength = name.partition(".")
        if kind == "nodeAffinity":
            yield Sentence(setting.path, "note", _describe_node_terms(setting.value, required=name == REQUIRED_NODES))
        elif not facts.is_local:  # one machine has nothing to be beside
            required = strength == REQUIRED
            pods = [term if required else term["podAffinityTerm"] for term in setting.value]
            text = f"{BESIDE[kind, required]} {format_list(list(map(_name_pods, pods)), most=MOST_TERMS)}."
            yield Sentence(setting.path, "note", text)
        if not setting.combined:
            yield from describe_source(facts, setting.path, setting)


def describe_classes(facts: Facts) -> Iterator[Sentence]:
    """Classes of the cluster, which mean nothing on one machine."""
    for field, text in CLASSES.items():
        setting = facts.settings.get(field)
        if setting is not None and is_set(setting) and not facts.is_local:
            yield Sentence(field, "note", text.format(setting.value))
            yield from describe_source(facts, field, setting)


def _describe_toleration(path: str, taint: Json) -> Sentence:
    named = f"tainted {taint['key']}" if taint.get("key") else "with any taint"
    if taint.get("operator", "Equal") == "Equal":
        named += f"={_quote(taint.get('value') or '')}"
    effect = f" ({taint['effect']})" if taint.get("effect") else ""
    seconds = taint.get("tolerationSeconds")
    if seconds is None:
        return Sentence(path, "note", f"It may also run on nodes {named}{effect}.")
    return Sentence(path, "risk", f"On a node {named}{effect} it is evicted after {max(seconds, 0)} seconds.")


def _describe_node_terms(terms: Sequence[Json], *, required: bool) -> str:
    said = [_describe_conditions(term if required else term["preference"]) for term in terms]
    said = [text for text in said if text]
    if not said:
        return "No node suits: its affinity has no condition." if required else "It prefers no node to another."
    verb = "Only on nodes where" if required else "Rather on nodes where"
    if len(said) > MOST_TERMS:
        return f"{verb} one of {len(said)} sets of conditions holds."
    return f"{verb} {', or where '.join(said)}."


def _describe_conditions(term: Json) -> str:
    conditions = [*(term.get("matchExpressions") or ()), *(term.get("matchFields") or ())]
    return format_list([_describe_condition(condition) for condition in conditions]) if conditions else ""


def _describe_condition(condition: Json) -> str:
    key, values = condition["key"], [_quote(value) for value in condition.get("values") or ()]
    match condition["operator"]:
        case "In":
            return f"{key} is {format_list(values, 'or')}"
        case "NotIn":
            return f"{key} is not {format_list(values, 'or')}"
        case "Exists":
            return f"{key} is there"
        case "DoesNotExist":
            return f"{key} is not there"
        case operator:
            return f"{key} is {'over' if operator == 'Gt' else 'under'} {format_list(values)}"


def _name_pods(term: Json) -> str:
    selector = term.get("labelSelector")
    labels = [f"{key}={_quote(value)}" for key, value in ((selector or {}).get("matchLabels") or {}).items()]
    labels += [_describe_condition(condition) for condition in (selector or {}).get("matchExpressions") or ()]
    who = "no pod" if selector is None else f"pods with {format_list(labels)}" if labels else "any pod"
    if term.get("namespaces"):
        who += f" of {format_list(list(term['namespaces']))}"
    elif term.get("namespaceSelector") is not None:
        who += " of certain namespaces"
    return f"{who} (same {term['topologyKey']})"


def _quote(text: str) -> str:
    return text or '""'

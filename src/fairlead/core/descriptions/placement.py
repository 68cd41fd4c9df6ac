"""Descriptions of node selectors, tolerations, affinity, runtime class and priority class."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fairlead.core.descriptions.facts import Facts, describe_source, format_list, is_set
from fairlead.model.plans import Sentence
from fairlead.resolution.layers import REQUIRED, REQUIRED_NODES

MAX_TERMS = 3
AFFINITY_PHRASES: Mapping[tuple[str, bool], str] = {
    ("podAffinity", True): "Only near",
    ("podAffinity", False): "Preferably near",
    ("podAntiAffinity", True): "Never near",
    ("podAntiAffinity", False): "Preferably not near",
}
CLASSES: Mapping[str, str] = {
    "runtime_class": "Runtime class {} (must exist in the cluster).",
    "priority_class": "Priority class {} of the cluster, which determines scheduling order and preemption.",
}

Json = Mapping[str, Any]


def describe_nodes(facts: Facts) -> Iterator[Sentence]:
    """Node selectors and tolerations."""
    for key, setting in facts.section("node_selector").items():
        yield Sentence(setting.path, "note", f"Only on nodes with {key}={_quote(setting.value)}.")
        yield from describe_source(facts, setting.path, setting)
    for setting in facts.section("tolerations").values():
        yield _describe_toleration(setting.path, setting.value)
        yield from describe_source(facts, setting.path, setting)


def describe_affinity(facts: Facts) -> Iterator[Sentence]:
    """Node affinity and inter-pod affinity."""
    for name, setting in facts.section("affinity").items():
        kind, _, strength = name.partition(".")
        if kind == "nodeAffinity":
            yield Sentence(setting.path, "note", _describe_node_terms(setting.value, required=name == REQUIRED_NODES))
        elif not facts.is_local:  # has no effect on a single machine
            required = strength == REQUIRED
            pods = [term if required else term["podAffinityTerm"] for term in setting.value]
            text = f"{AFFINITY_PHRASES[kind, required]} {format_list(list(map(_describe_pods, pods)), most=MAX_TERMS)}."
            yield Sentence(setting.path, "note", text)
        # Terms combined from several layers have no single source.
        if not setting.combined:
            yield from describe_source(facts, setting.path, setting)


def describe_classes(facts: Facts) -> Iterator[Sentence]:
    """Runtime class and priority class, which have no effect on a local cluster."""
    for field, text in CLASSES.items():
        setting = facts.settings.get(field)
        if setting is not None and is_set(setting) and not facts.is_local:
            yield Sentence(field, "note", text.format(setting.value))
            yield from describe_source(facts, field, setting)


def _describe_toleration(path: str, taint: Json) -> Sentence:
    description = f"taint {taint['key']}" if taint.get("key") else "any taint"
    if taint.get("operator", "Equal") == "Equal":
        description += f"={_quote(taint.get('value') or '')}"
    effect = f" ({taint['effect']})" if taint.get("effect") else ""
    seconds = taint.get("tolerationSeconds")
    # With tolerationSeconds, the pod is evicted that long after the taint was added.
    if seconds is None:
        return Sentence(path, "note", f"Tolerates {description}{effect}.")
    return Sentence(path, "risk", f"Evicted after {max(seconds, 0)} seconds from nodes with {description}{effect}.")


def _describe_node_terms(terms: Sequence[Json], *, required: bool) -> str:
    descriptions = [_describe_conditions(term if required else term["preference"]) for term in terms]
    # Without conditions, a required term matches no node and a preferred term has no effect.
    descriptions = [text for text in descriptions if text]
    if not descriptions:
        return "Matches no node: the node affinity has no conditions." if required else "No node preference."
    start = "Only on nodes" if required else "Preferably on nodes"
    if len(descriptions) > MAX_TERMS:
        return f"{start} that match one of {len(descriptions)} sets of conditions."
    return f"{start} with {', or with '.join(descriptions)}."


def _describe_conditions(term: Json) -> str:
    conditions = [*(term.get("matchExpressions") or ()), *(term.get("matchFields") or ())]
    return format_list([_describe_condition(condition) for condition in conditions]) if conditions else ""


def _describe_condition(condition: Json) -> str:
    key, values = condition["key"], [_quote(value) for value in condition.get("values") or ()]
    match condition["operator"]:
        case "In":
            return f"{key} = {format_list(values, 'or')}"
        case "NotIn":
            return f"{key} other than {format_list(values, 'or')}"
        case "Exists":
            return f"label {key}"
        case "DoesNotExist":
            return f"no label {key}"
        case operator:
            return f"{key} {'above' if operator == 'Gt' else 'below'} {format_list(values)}"


def _describe_pods(term: Json) -> str:
    selector = term.get("labelSelector")
    labels = [f"{key}={_quote(value)}" for key, value in ((selector or {}).get("matchLabels") or {}).items()]
    labels += [_describe_condition(condition) for condition in (selector or {}).get("matchExpressions") or ()]
    # In Kubernetes, a missing selector matches no pods, and an empty selector matches every pod.
    pods = "no pod" if selector is None else f"pods with {format_list(labels)}" if labels else "any pod"
    if term.get("namespaces"):
        pods += f" in {format_list(list(term['namespaces']))}"
    elif term.get("namespaceSelector") is not None:
        pods += " in selected namespaces"
    return f"{pods} (same {term['topologyKey']})"


def _quote(text: str) -> str:
    return text or '""'

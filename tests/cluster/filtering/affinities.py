"""Random valid node affinity, pod affinity, topology spread constraints, taints and tolerations."""

from collections.abc import Mapping
from random import Random
from typing import Any

JSON = dict[str, Any]
Known = Mapping[str, tuple[str, ...]]  # label keys and their possible values

HOST, ZONE, REGION, RACK = (
    "kubernetes.io/hostname",
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "rack",
)
OLD_ZONE, OLD_REGION = "failure-domain.beta.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/region"
ZONES, REGIONS, RACKS = ("z1", "z2", "z3"), ("r1", "r2"), ("1", "2", "3")
DOMAINS = (HOST, HOST, HOST, ZONE, ZONE, ZONE, RACK, REGION)  # for pod affinity and anti-affinity
NUMBERS = ("0", "1", "2", "10", "007", "4.5", "ten", "", "9223372036854775807", "9223372036854775808")
NODE_LABELS: Known = {
    ZONE: ZONES,
    REGION: REGIONS,
    RACK: RACKS,
    "pool": ("cpu", "gpu", ""),
    "size": NUMBERS,
    "nvidia.com/gpu.product": ("NVIDIA-A100-SXM4-80GB", "Tesla-T4"),
}
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
POD_LABELS: Known = {"app": ("web", "web", "web", "db", "cache"), "tier": ("front", "front", "back")}
NAMESPACES = ("alpha", "beta", "gamma")
NAMESPACE_LABELS: Known = {"team": ("red", "blue"), "stage": ("test", "live")}
TAINTS = ("dedicated", "gpu", "node.kubernetes.io/not-ready", "node.kubernetes.io/unschedulable")
TAINT_VALUES = ("", "a", "b")
EFFECTS = ("NoSchedule", "NoExecute", "PreferNoSchedule")


def chance(random: Random, probability: float) -> bool:
    """Return True with the given probability."""
    return random.random() < probability


def pick_labels(random: Random, known: Known, probability: float) -> dict[str, str]:
    """Random labels, each included with a given probability."""
    return {key: random.choice(values) for key, values in known.items() if chance(random, probability)}


def make_taints(random: Random) -> list[JSON]:
    """Random taints with unique keys and effects."""
    chosen = {(random.choice(TAINTS), random.choice(EFFECTS)) for _ in range(random.choice((0, 0, 0, 1, 1, 2)))}
    taints = []
    for key, effect in sorted(chosen):
        value = random.choice(TAINT_VALUES)
        taints.append({"key": key, "effect": effect, **({"value": value} if value else {})})
    return taints


def make_tolerations(random: Random) -> list[JSON]:
    """Tolerations in every form."""
    return [_make_toleration(random) for _ in range(random.choice((0, 1, 1, 2, 3)))]


def make_node_selector(random: Random) -> dict[str, str]:
    """A random node selector, sometimes empty."""
    return pick_labels(random, {key: values for key, values in NODE_LABELS.items() if key != "size"}, 0.2)


def make_node_affinity(random: Random, names: list[str]) -> JSON:
    """A node affinity with required terms, and sometimes preferred ones."""
    terms = [make_node_term(random, names) for _ in range(random.choice((1, 1, 1, 2, 2, 3)))]
    affinity: JSON = {REQUIRED: {"nodeSelectorTerms": terms}}
    if chance(random, 0.1):
        # Preferences never have invalid numbers: filters ignore them, but scoring nodes would fail in the scheduler.
        expression = {"key": "pool", "operator": "In", "values": [random.choice(NODE_LABELS["pool"])]}
        preference = {"weight": 1, "preference": {"matchExpressions": [expression]}}
        affinity["preferredDuringSchedulingIgnoredDuringExecution"] = [preference]
    return affinity


def make_node_term(random: Random, names: list[str], *, fields: bool = True) -> JSON:
    """A node selector term with expressions, a node name, both, or nothing."""
    term: JSON = {}
    if chance(random, 0.85):
        term["matchExpressions"] = [make_node_expression(random) for _ in range(random.choice((1, 1, 2)))]
    if fields and chance(random, 0.25):
        values = [random.choice([*names, "node-none"])]  # the API accepts only one name
        operator = random.choice(("In", "In", "NotIn"))
        term["matchFields"] = [{"key": "metadata.name", "operator": operator, "values": values}]
    return term


def make_node_expression(random: Random) -> JSON:
    """An expression on node labels with any of the six operators."""
    operator = random.choice(("In", "In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"))
    if operator in ("Gt", "Lt"):
        return {"key": "size", "operator": operator, "values": [random.choice(NUMBERS)]}
    key = random.choice(list(NODE_LABELS))
    if operator in ("Exists", "DoesNotExist"):
        return {"key": key, "operator": operator}
    values = NODE_LABELS[key]
    return {"key": key, "operator": operator, "values": random.sample(values, random.randint(1, min(2, len(values))))}


def make_pod_terms(random: Random, own_labels: dict[str, str]) -> list[JSON]:
    """Pod affinity terms, often matching the pod's own labels."""
    return [_make_pod_term(random, own_labels) for _ in range(random.choice((1, 1, 1, 2)))]


def make_spread(random: Random, own_labels: dict[str, str]) -> list[JSON]:
    """Topology spread constraints with unique keys and strictness, often matching the pod's own labels."""
    constraints: dict[tuple[str, str], JSON] = {}
    for _ in range(random.choice((1, 1, 1, 2))):
        constraint = _make_constraint(random, own_labels)
        constraints[constraint["topologyKey"], constraint["whenUnsatisfiable"]] = constraint
    return list(constraints.values())


def make_selector(random: Random, known: Known) -> JSON:
    """A label selector that is empty, or has labels, expressions, or both."""
    selector: JSON = {}
    if chance(random, 0.6):
        key = random.choice(list(known))
        selector["matchLabels"] = {key: random.choice(known[key])}
    if chance(random, 0.4):
        selector["matchExpressions"] = [_make_label_expression(random, known)]
    return selector


def _make_toleration(random: Random) -> JSON:
    toleration: JSON = {}
    if chance(random, 0.15):
        toleration["operator"] = "Exists"
    else:
        toleration["key"] = random.choice(TAINTS)
        operator = random.choice(("Exists", "Equal", None))
        if operator:
            toleration["operator"] = operator
        if operator != "Exists" and (value := random.choice(TAINT_VALUES)):
            toleration["value"] = value
    if chance(random, 0.5):
        toleration["effect"] = random.choice(EFFECTS)
        if toleration["effect"] == "NoExecute" and chance(random, 0.3):
            toleration["tolerationSeconds"] = 30
    return toleration


def _make_pod_term(random: Random, own_labels: dict[str, str]) -> JSON:
    term: JSON = {"topologyKey": _pick_domain(random)}
    if chance(random, 0.95):
        term["labelSelector"] = _select_pods(random, own_labels)
    if chance(random, 0.1):
        _add_keys(term, random.choice(("matchLabelKeys", "mismatchLabelKeys")), random.choice(list(POD_LABELS)))
    if chance(random, 0.25):
        term["namespaces"] = random.sample(NAMESPACES, random.randint(1, 2))
    if chance(random, 0.25):
        term["namespaceSelector"] = {} if chance(random, 0.3) else make_selector(random, NAMESPACE_LABELS)
    return term


def _make_constraint(random: Random, own_labels: dict[str, str]) -> JSON:
    strict = chance(random, 0.85)
    constraint: JSON = {
        "maxSkew": random.choice((1, 1, 1, 2, 3)),
        "topologyKey": _pick_domain(random),
        "whenUnsatisfiable": "DoNotSchedule" if strict else "ScheduleAnyway",
    }
    if chance(random, 0.95):
        constraint["labelSelector"] = _select_pods(random, own_labels)
    if chance(random, 0.1):
        _add_keys(constraint, "matchLabelKeys", random.choice(list(POD_LABELS)))
    if strict and chance(random, 0.25):
        constraint["minDomains"] = random.randint(1, 4)
    for policy in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
        if chance(random, 0.3):
            constraint[policy] = random.choice(("Honor", "Ignore"))
    return constraint


def merge_keys(terms: list[JSON], own_labels: dict[str, str]) -> list[JSON]:
    """Terms as the API server stores them: matchLabelKeys and mismatchLabelKeys are merged into the selectors."""
    merged = []
    for term in terms:
        expressions = [
            {"key": key, "operator": operator, "values": [own_labels[key]]}
            for name, operator in (("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn"))
            for key in term.get(name, ())
            if key in own_labels
        ]
        if expressions:
            selector = term["labelSelector"]
            combined = {**selector, "matchExpressions": [*selector.get("matchExpressions", ()), *expressions]}
            merged.append({**term, "labelSelector": combined})
        else:
            merged.append(term)
    return merged


def _add_keys(term: JSON, name: str, key: str) -> None:
    """Add matchLabelKeys or mismatchLabelKeys to a term, unless its selector already uses the label."""
    selector = term.get("labelSelector")
    if selector is None:
        return
    keys = {
        *selector.get("matchLabels", ()),
        *(expression["key"] for expression in selector.get("matchExpressions", ())),
    }
    if key not in keys:
        term[name] = [key]


def _pick_domain(random: Random) -> str:
    return random.choice(DOMAINS) if chance(random, 0.96) else "nowhere"


def _select_pods(random: Random, own_labels: dict[str, str]) -> JSON:
    if not own_labels or chance(random, 0.4):
        return make_selector(random, POD_LABELS)
    return {"matchLabels": dict([random.choice(list(own_labels.items()))])}


def _make_label_expression(random: Random, known: Known) -> JSON:
    key = random.choice(list(known))
    operator = random.choice(("In", "NotIn", "Exists", "DoesNotExist"))
    if operator in ("Exists", "DoesNotExist"):
        return {"key": key, "operator": operator}
    return {"key": key, "operator": operator, "values": sorted(set(random.sample(known[key], random.randint(1, 2))))}

"""Node selectors, node affinity, taints, host ports and label selectors, as kube-scheduler evaluates them."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

from fairlead.model.nodes import HostPort, Labels, Node, PodRequest, Taint, TaintSet, Term, taint_set_of
from fairlead.scheduling.reasons import Cause, Reason

INTEGER = re.compile(r"[+-]?[0-9]+", re.ASCII)  # unlike Go, int() also accepts underscores and spaces
MAX_INT64 = 2**63 - 1
OPERATORS: Mapping[str, Callable[[str | None, Sequence[str]], bool]] = {
    "In": lambda value, wanted: value in wanted,
    # NotIn also matches if the label is missing.
    "NotIn": lambda value, wanted: value not in wanted,
    "Exists": lambda value, _: value is not None,
    "DoesNotExist": lambda value, _: value is None,
    "Gt": lambda value, wanted: _compares(value, wanted, 1),
    "Lt": lambda value, wanted: _compares(value, wanted, -1),
}
# Effects that exclude pods. The third effect, PreferNoSchedule, is only a preference.
EXCLUDING_EFFECTS = ("NoSchedule", "NoExecute")
# Kubernetes adds this taint to a cordoned node shortly after `unschedulable` is set, so both are checked.
CORDONED = Taint("node.kubernetes.io/unschedulable", "", "NoSchedule")
# Prefixes of temporary taints, which mark nodes that are unhealthy or not ready yet: from Kubernetes, autoscalers and
# node agents.
TEMPORARY_TAINTS = (
    "node.kubernetes.io/",
    "node.cloudprovider.kubernetes.io/",
    "startup-taint.cluster-autoscaler.kubernetes.io/",
    "status-taint.cluster-autoscaler.kubernetes.io/",
    "ToBeDeletedByClusterAutoscaler",
    "DeletionCandidateOfClusterAutoscaler",
    "karpenter.sh/unregistered",
    "karpenter.sh/disrupted",
    "node.cilium.io/agent-not-ready",
    "ebs.csi.aws.com/agent-not-ready",
)
ANY_ADDRESS = "0.0.0.0"  # the port is used on all of the node's addresses
GPU_PRODUCT = "gpu.product"  # suffix of the label with a node's GPU type

NodeMatcher = Callable[[Labels, str], bool]  # takes the labels and the name of a node

Selector = Mapping[str, Any]  # a LabelSelector as JSON


def find_mismatches(pod_request: PodRequest, node: Node) -> Iterator[Reason]:
    """Reasons why the name, labels, taints or host ports of a node exclude a pod."""
    if pod_request.node_name not in ("", node.name):
        yield Reason(Cause.NODE_NAME, "", f"requires node {pod_request.node_name}; this is {node.name}", lasts=True)
    for key, value in pod_request.node_selector.items():
        if node.labels.get(key) != value:
            has = f"{key}={node.labels[key]}" if key in node.labels else "no such label"
            message = f"needs a node with {key}={value}; {node.name} has {has}"
            yield Reason(Cause.LABELS, f"node_selector.{key}", message, lasts=True)
    if not matches_node_affinity(pod_request, node.labels, node.name):
        yield from _explain(pod_request.node_terms or (), node)
    taint_set = taint_set_of(node)
    if is_cordoned(pod_request, taint_set):
        yield Reason(Cause.CORDONED, "", f"{node.name} is cordoned")
    for taint in find_taints(pod_request, taint_set):
        message = f"{node.name} has the taint {taint}, which is not tolerated"
        yield Reason(Cause.TAINT, "tolerations", message, lasts=not is_temporary(taint))
    if taken := find_taken_port(pod_request, node):
        message = f"needs host port {taken.number}, which another pod uses on {node.name}"
        yield Reason(Cause.PORTS, "", message)


def compile_node_matcher(pod_request: PodRequest) -> NodeMatcher | None:
    """A matcher for a pod's node selector and node affinity, or None if every node matches."""
    selector, terms = tuple(pod_request.node_selector.items()), pod_request.node_terms
    if not selector and terms is None:
        return None
    matches_terms = None if terms is None else compile_terms(terms)

    def matches(labels: Labels, name: str) -> bool:
        for key, value in selector:
            if labels.get(key) != value:
                return False
        return matches_terms is None or matches_terms(labels, name)

    return matches


def compile_terms(terms: Sequence[Term]) -> NodeMatcher:
    """A matcher for nodes that match at least one node affinity term."""
    compiled = [_compile(term) for term in terms]
    return compiled[0] if len(compiled) == 1 else lambda labels, name: any(test(labels, name) for test in compiled)


def matches_node_affinity(pod_request: PodRequest, labels: Labels, name: str) -> bool:
    """Whether a node matches a pod's node affinity. True if the pod has none."""
    return pod_request.node_terms is None or compile_terms(pod_request.node_terms)(labels, name)


def show_terms(terms: Sequence[Term]) -> str:
    """The node affinity for messages: its requirements if there is one term, else the number of terms."""
    if len(terms) != 1 or not any(terms[0].values()):
        return f"labels that match its node affinity ({len(terms)} terms)"
    requirements = (*(terms[0].get("matchExpressions") or ()), *(terms[0].get("matchFields") or ()))
    return " and ".join(map(show_expression, requirements))


def is_cordoned(pod_request: PodRequest, taint_set: TaintSet) -> bool:
    """Whether a node is cordoned and the pod does not tolerate the taint on cordoned nodes."""
    return taint_set.unschedulable and not _is_tolerated(CORDONED, pod_request)


def find_taints(pod_request: PodRequest, taint_set: TaintSet) -> list[Taint]:
    """The taints that exclude a pod."""
    excluding = (taint for taint in taint_set.taints if taint.effect in EXCLUDING_EFFECTS)
    return [taint for taint in excluding if not _is_tolerated(taint, pod_request)]


def is_temporary(taint: Taint) -> bool:
    """Whether a taint describes the health of a node, not its purpose."""
    return taint.key.startswith(TEMPORARY_TAINTS)


def find_taken_port(pod_request: PodRequest, node: Node) -> HostPort | None:
    """A requested host port that another pod uses, or None."""
    if not pod_request.ports:
        return None
    taken = [port for pod in node.pods for port in pod.ports]
    return next((port for port in pod_request.ports if any(_clash(port, other) for other in taken)), None)


def show_expression(requirement: Mapping[str, Any]) -> str:
    """A label requirement for messages: zone In a, b."""
    values = requirement.get("values") or ()
    if requirement["key"].endswith(GPU_PRODUCT) and requirement["operator"] == "In":
        return f"a GPU of type {' or '.join(values)}"
    return f"{requirement['key']} {requirement['operator']} {', '.join(values)}".strip()


def _clash(one: HostPort, other: HostPort) -> bool:
    same = one.number == other.number and one.protocol == other.protocol
    return same and (one.ip == other.ip or ANY_ADDRESS in (one.ip, other.ip))


def _is_tolerated(taint: Taint, pod_request: PodRequest) -> bool:
    return any(_tolerates(toleration, taint) for toleration in pod_request.tolerations)


def _tolerates(toleration: Mapping[str, Any], taint: Taint) -> bool:
    # A toleration without an effect or key applies to all effects or keys.
    if toleration.get("effect") not in (None, "", taint.effect) or toleration.get("key") not in (None, "", taint.key):
        return False
    if toleration.get("operator") == "Exists":
        return True
    return toleration.get("operator") in (None, "", "Equal") and (toleration.get("value") or "") == taint.value


def _compile(term: Term) -> NodeMatcher:
    expressions = [(each["key"], _compile_expression(each)) for each in term.get("matchExpressions") or ()]
    fields = [_compile_expression(each) for each in term.get("matchFields") or ()]
    if not expressions and not fields:
        # As in Kubernetes, a term without requirements matches no node.
        return lambda _labels, _name: False

    def matches(labels: Labels, name: str) -> bool:
        for key, test in expressions:
            if not test(labels.get(key)):
                return False
        return all(test(name) for test in fields)

    return matches


def _compile_expression(requirement: Mapping[str, Any]) -> Callable[[str | None], bool]:
    operator, wanted = OPERATORS[requirement["operator"]], tuple(requirement.get("values") or ())
    return cache(lambda value: operator(value, wanted))  # many nodes have the same value


def _explain(terms: Sequence[Term], node: Node) -> Iterator[Reason]:
    """The requirements of a single term that a node does not meet. For several terms, only the fact that none match."""
    # A node only has to match one term, so with several terms, no single unmet requirement is the reason.
    if len(terms) != 1 or not any(terms[0].values()):
        message = f"{node.name} matches no term of the pod's node affinity"
        yield Reason(Cause.LABELS, "affinity", message, lasts=True)
        return
    for requirement in terms[0].get("matchExpressions") or ():
        value = node.labels.get(requirement["key"])
        if not OPERATORS[requirement["operator"]](value, list(requirement.get("values") or ())):
            # The planner converts the GPU type to node affinity, but users know only the type.
            path = "resources.gpu.type" if requirement["key"].endswith(GPU_PRODUCT) else "affinity"
            message = f"needs a node with {show_expression(requirement)}; {node.name} has {value or 'no such label'}"
            yield Reason(Cause.LABELS, path, message, lasts=True)
    for requirement in terms[0].get("matchFields") or ():
        if not OPERATORS[requirement["operator"]](node.name, list(requirement.get("values") or ())):
            named = f"{'not ' * (requirement['operator'] == 'NotIn')}named {', '.join(requirement.get('values') or ())}"
            yield Reason(Cause.LABELS, "affinity", f"needs a node {named}; this is {node.name}", lasts=True)


def _compares(value: str | None, wanted: Sequence[str], sign: int) -> bool:
    numbers = [int(text) for text in (value, *wanted[:1]) if text is not None and INTEGER.fullmatch(text)]
    # Kubernetes parses both as int64. If that fails, the requirement does not match.
    if len(numbers) != 2 or any(not -MAX_INT64 - 1 <= number <= MAX_INT64 for number in numbers):
        return False
    return (numbers[0] - numbers[1]) * sign > 0


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


def selects_everything(selector: Selector | None) -> bool:
    """Whether a selector matches everything."""
    return selector is not None and not (selector.get("matchLabels") or selector.get("matchExpressions"))


def merge_label_keys(selector: Selector | None, operator: str, keys: Iterable[str], labels: Labels) -> Selector | None:
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


def show_selected_pods(selector: Selector | None) -> str:
    """A description of the selected pods, for messages."""
    if selector is None:
        return "no pods"
    parts = [f"{key}={value}" for key, value in (selector.get("matchLabels") or {}).items()]
    parts += map(show_expression, selector.get("matchExpressions") or ())
    return f"pods with {' and '.join(parts)}" if parts else "any pods"

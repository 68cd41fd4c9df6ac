"""Node selectors, node affinity, taints, host ports and label selectors, as kube-scheduler evaluates them."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import product
from typing import Any

from fairlead.model.nodes import (
    HostPort,
    Labels,
    Node,
    NodeTable,
    PodRequest,
    ScheduledPod,
    Taint,
    TaintSet,
    Term,
    taint_set_of,
)
from fairlead.scheduling.node_indexes import IndexedNodes, PodKey, pods_by_label
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


def match_nodes(pod_request: PodRequest, table: NodeTable) -> Sequence[int]:
    """The positions of nodes that match a pod's node selector and node affinity."""
    selector, terms = pod_request.node_selector, pod_request.node_terms

    def match() -> Sequence[int]:
        positions: Sequence[int] = range(len(table))
        for key, value in selector.items():
            values = table.values_of(key)
            positions = [at for at in positions if values[at] == value]
        return positions if terms is None else match_terms(terms, table, positions)

    # Cached, because topology spread needs it, too. The text is the key, because dicts are not hashable.
    return table.cached(f"match {selector} {terms}", match) if selector or terms is not None else range(len(table))


def match_terms(terms: Sequence[Term], table: NodeTable, positions: Sequence[int]) -> Sequence[int]:
    """The positions of nodes that match at least one node affinity term."""
    if len(terms) == 1:
        return _match(terms[0], table, positions)
    matching = set[int]().union(*(_match(term, table, positions) for term in terms))
    return [at for at in positions if at in matching]


def without_taint_sets(
    rejects: Callable[[TaintSet], bool], table: NodeTable, positions: Sequence[int]
) -> Sequence[int]:
    """The positions of nodes whose taint set is not rejected."""
    # Thousands of nodes share a few taint sets, so each distinct set is tested once. They are compared by `id()`,
    # because hashing a taint set for each node is slower.
    rejected = {id(taint_set) for taint_set in table.all_taint_sets if rejects(taint_set)}
    taint_sets = table.taint_sets
    return [at for at in positions if id(taint_sets[at]) not in rejected] if rejected else positions


def matches_node_affinity(pod_request: PodRequest, labels: Labels, name: str) -> bool:
    """Whether a node matches a pod's node affinity. True if the pod has none."""
    return pod_request.node_terms is None or any(_matches(term, labels, name) for term in pod_request.node_terms)


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


def _match(term: Term, table: NodeTable, positions: Sequence[int]) -> Sequence[int]:
    expressions, fields = term.get("matchExpressions") or (), term.get("matchFields") or ()
    for requirement in expressions:
        key = requirement["key"]
        # Many nodes have the same value, so each distinct value is tested once.
        matching = {value for value in (None, *table.domains_of(key)) if _meets(requirement, value)}
        values = table.values_of(key)
        positions = [at for at in positions if values[at] in matching]
    for requirement in fields:
        positions = [at for at in positions if _meets(requirement, table.names[at])]
    return positions if expressions or fields else []  # as in Kubernetes, a term without requirements matches no node


def _matches(term: Term, labels: Labels, name: str) -> bool:
    expressions, fields = term.get("matchExpressions") or (), term.get("matchFields") or ()
    met = all(_meets(each, labels.get(each["key"])) for each in expressions) and all(
        _meets(each, name) for each in fields
    )
    return met and bool(expressions or fields)


def _meets(requirement: Mapping[str, Any], value: str | None) -> bool:
    return OPERATORS[requirement["operator"]](value, requirement.get("values") or ())


def _explain(terms: Sequence[Term], node: Node) -> Iterator[Reason]:
    """The requirements of a single term that a node does not meet. For several terms, only the fact that none match."""
    # A node only has to match one term, so with several terms, no single unmet requirement is the reason.
    if len(terms) != 1 or not any(terms[0].values()):
        message = f"{node.name} matches no term of the pod's node affinity"
        yield Reason(Cause.LABELS, "affinity", message, lasts=True)
        return
    for requirement in terms[0].get("matchExpressions") or ():
        value = node.labels.get(requirement["key"])
        if not _meets(requirement, value):
            # The planner converts the GPU type to node affinity, but users know only the type.
            path = "resources.gpu.type" if requirement["key"].endswith(GPU_PRODUCT) else "affinity"
            message = f"needs a node with {show_expression(requirement)}; {node.name} has {value or 'no such label'}"
            yield Reason(Cause.LABELS, path, message, lasts=True)
    for requirement in terms[0].get("matchFields") or ():
        if not _meets(requirement, node.name):
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
        if not _meets(requirement, labels.get(requirement["key"])):
            return False
    return True


class PodSelector:
    """Selects pods in some namespaces (None: all) with a label selector."""

    def __init__(self, selector: Selector | None, namespaces: frozenset[str] | None) -> None:
        self.selector = selector
        self.namespaces = namespaces
        labels = (selector or {}).get("matchLabels") or {}
        requirements = (selector or {}).get("matchExpressions") or ()
        # The labels that a pod must have, with the possible values of each. Other requirements are not indexed.
        self._labels = [(key, frozenset([value])) for key, value in labels.items()]
        self._labels += [
            (each["key"], frozenset(each.get("values") or ())) for each in requirements if each["operator"] == "In"
        ]
        self._is_indexed = len(self._labels) == len(labels) + len(requirements) == 1

    def selects(self, pod: PodRequest | ScheduledPod) -> bool:
        """Whether a pod is selected."""
        # The namespace comes first, because comparing it is faster.
        return (self.namespaces is None or pod.namespace in self.namespaces) and selects(self.selector, pod.labels)

    def find(self, table: NodeTable) -> Iterator[tuple[int, ScheduledPod]]:
        """The selected pods on all nodes, with the positions of the nodes, in the order of positions."""
        candidates: Iterable[tuple[int, ScheduledPod]] = ()
        if self._labels:
            index, keys = self._find_keys(table)
            candidates = index.find(keys)
        elif self.selector is not None:
            candidates = ((at, pod) for at, node in enumerate(table.nodes) for pod in node.pods)
        return ((at, pod) for at, pod in candidates if self.selects(pod))

    def find_positions(self, table: NodeTable, *, terminating: bool = True) -> Sequence[int]:
        """The positions of nodes with selected pods, in order, once for each pod. `terminating`: also such pods."""
        if not self._is_indexed:
            return [at for at, pod in self.find(table) if terminating or not pod.terminating]
        index, keys = self._find_keys(table)
        return index.find_positions([key for key in keys if terminating or not key.terminating])

    def _find_keys(self, table: NodeTable) -> tuple[IndexedNodes[PodKey, ScheduledPod], list[PodKey]]:
        """The index of the required label that the fewest pods have, and its keys for the selected pods."""
        indexes = [(pods_by_label(table, label), values) for label, values in self._labels]
        found = [(index, self._list_keys(index, values)) for index, values in indexes]
        return min(found, key=lambda each: each[0].count(each[1]))

    def _list_keys(self, index: IndexedNodes[PodKey, ScheduledPod], values: frozenset[str]) -> list[PodKey]:
        if self.namespaces is None:
            return [key for key in index.examples if key.value in values]
        return [PodKey(*each) for each in product(values, self.namespaces, (False, True))]


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

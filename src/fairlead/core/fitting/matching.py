"""Whether a node's labels, taints and ports suit a pod, as kube-scheduler sees it."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

from fairlead.core.fitting.node_tables import TaintSet, taint_set_of
from fairlead.core.fitting.pod_requests import PodRequest
from fairlead.core.fitting.reasons import Cause, Reason
from fairlead.model.nodes import Labels, Node, Port, Taint, Term

WHOLE = re.compile(r"[+-]?[0-9]+", re.ASCII)
LARGEST = 2**63 - 1
OPERATORS: Mapping[str, Callable[[str | None, Sequence[str]], bool]] = {
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
# What is said of nodes that are not well or not set up yet, and taken back: by Kubernetes, by those that add and remove
# nodes, and by those that set them up.
PASSING = (
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
ANY_ADDRESS = "0.0.0.0"

NodeMatcher = Callable[[Labels, str], bool]  # whether labels and a name are those of a node that will do


def find_mismatches(pod_request: PodRequest, node: Node) -> Iterator[Reason]:
    """Each thing about the node itself that keeps it off, in words."""
    if pod_request.node_name not in ("", node.name):
        yield Reason(Cause.NODE_NAME, "", f"asks for node {pod_request.node_name}; this is {node.name}", lasts=True)
    for key, value in pod_request.node_selector.items():
        if node.labels.get(key) != value:
            found = node.labels.get(key)
            has = "no such label" if found is None else f"{key}={found}"
            message = f"asks for a node with {key}={value}; {node.name} has {has}"
            yield Reason(Cause.LABELS, f"node_selector.{key}", message, lasts=True)
    if not matches_node_affinity(pod_request, node.labels, node.name):
        yield from _explain(pod_request.node_terms or (), node)
    taint_set = taint_set_of(node)
    if is_cordoned(pod_request, taint_set):
        yield Reason(Cause.CORDONED, "", f"{node.name} is cordoned: it takes nothing new")
    for taint in find_taints(pod_request, taint_set):
        message = f"{node.name} is tainted {taint}, which is not tolerated"
        yield Reason(Cause.TAINT, "tolerations", message, lasts=not is_temporary(taint))
    if taken := find_taken_port(pod_request, node):
        message = f"asks for port {taken.number} of its node, which another pod has on {node.name}"
        yield Reason(Cause.PORTS, "", message)


def compile_node_matcher(pod_request: PodRequest) -> NodeMatcher | None:
    """A quick test of labels and names for many nodes; None where every node will do."""
    selector, terms = tuple(pod_request.node_selector.items()), pod_request.node_terms
    if not selector and terms is None:
        return None
    holds = None if terms is None else compile_terms(terms)

    def suits(labels: Labels, name: str) -> bool:
        for key, value in selector:
            if labels.get(key) != value:
                return False
        return holds is None or holds(labels, name)

    return suits


def compile_terms(terms: Sequence[Term]) -> NodeMatcher:
    """A quick test of whether one of some terms holds."""
    compiled = [_compile(term) for term in terms]
    return compiled[0] if len(compiled) == 1 else lambda labels, name: any(test(labels, name) for test in compiled)


def matches_node_affinity(pod_request: PodRequest, labels: Labels, name: str) -> bool:
    """Whether a term of the node affinity holds, where there is one."""
    return pod_request.node_terms is None or compile_terms(pod_request.node_terms)(labels, name)


def show_terms(terms: Sequence[Term]) -> str:
    """What a node must have, in a sentence: all of the only term, or one of several."""
    if len(terms) != 1 or not any(terms[0].values()):
        return f"what its node affinity asks for ({len(terms)} terms)"
    said = (*(terms[0].get("matchExpressions") or ()), *(terms[0].get("matchFields") or ()))
    return " and ".join(map(show_expression, said))


def is_cordoned(pod_request: PodRequest, taint_set: TaintSet) -> bool:
    """Whether a node takes nothing new; who tolerates the taint of such a node is taken all the same."""
    return taint_set.unschedulable and not _is_tolerated(CORDONED, pod_request)


def find_taints(pod_request: PodRequest, taint_set: TaintSet) -> list[Taint]:
    """The taints that keep it off a node."""
    return [taint for taint in taint_set.taints if taint.effect in KEEPS_OFF and not _is_tolerated(taint, pod_request)]


def is_temporary(taint: Taint) -> bool:
    """Whether a taint says how a node is, and not what it is for."""
    return taint.key.startswith(PASSING)


def find_taken_port(pod_request: PodRequest, node: Node) -> Port | None:
    """A port that it asks for and that another pod has."""
    if not pod_request.ports:
        return None
    taken = [port for held in node.holdings for port in held.ports]
    return next((asked for asked in pod_request.ports if any(_clash(asked, port) for port in taken)), None)


def show_expression(said: Mapping[str, Any]) -> str:
    """A condition on labels, in a sentence."""
    return f"{said['key']} {said['operator']} {', '.join(said.get('values') or ())}".strip()


def _clash(one: Port, other: Port) -> bool:
    same = one.number == other.number and one.protocol == other.protocol
    return same and (one.ip == other.ip or ANY_ADDRESS in (one.ip, other.ip))


def _is_tolerated(taint: Taint, pod_request: PodRequest) -> bool:
    return any(_tolerates(toleration, taint) for toleration in pod_request.tolerations)


def _tolerates(toleration: Mapping[str, Any], taint: Taint) -> bool:
    """Without an effect or a key it is about all of them."""
    if toleration.get("effect") not in (None, "", taint.effect) or toleration.get("key") not in (None, "", taint.key):
        return False
    if toleration.get("operator") == "Exists":
        return True
    return toleration.get("operator") in (None, "", "Equal") and (toleration.get("value") or "") == taint.value


def _compile(term: Term) -> NodeMatcher:
    """A term as a test; what it finds of a value it remembers, for many nodes have the same ones."""
    expressions = [(said["key"], _compile_expression(said)) for said in term.get("matchExpressions") or ()]
    fields = [_compile_expression(said) for said in term.get("matchFields") or ()]
    if not expressions and not fields:
        return lambda _labels, _name: False

    def suits(labels: Labels, name: str) -> bool:
        for key, test in expressions:
            if not test(labels.get(key)):
                return False
        return all(test(name) for test in fields)

    return suits


def _compile_expression(said: Mapping[str, Any]) -> Callable[[str | None], bool]:
    operator, wanted = OPERATORS[said["operator"]], tuple(said.get("values") or ())
    return cache(lambda value: operator(value, wanted))


def _explain(terms: Sequence[Term], node: Node) -> Iterator[Reason]:
    """What a node lacks of the only term; of several, that none of them holds."""
    if len(terms) != 1 or not any(terms[0].values()):
        message = f"none of the terms of its node affinity holds of {node.name}"
        yield Reason(Cause.LABELS, "affinity", message, lasts=True)
        return
    for said in terms[0].get("matchExpressions") or ():
        found = node.labels.get(said["key"])
        if not OPERATORS[said["operator"]](found, list(said.get("values") or ())):
            path = "resources.gpu.type" if said["key"].endswith("gpu.product") else "affinity"
            message = f"asks for a node with {show_expression(said)}; {node.name} has {found or 'no such label'}"
            yield Reason(Cause.LABELS, path, message, lasts=True)
    for said in terms[0].get("matchFields") or ():
        if not OPERATORS[said["operator"]](node.name, list(said.get("values") or ())):
            named = f"{'not ' * (said['operator'] == 'NotIn')}{', '.join(said.get('values') or ())}"
            yield Reason(Cause.LABELS, "affinity", f"asks for a node named {named}; this is {node.name}", lasts=True)


def _compares(value: str | None, wanted: Sequence[str], sign: int) -> bool:
    numbers = [int(text) for text in (value, *wanted[:1]) if text is not None and WHOLE.fullmatch(text)]
    if len(numbers) != 2 or any(not -LARGEST - 1 <= number <= LARGEST for number in numbers):
        return False
    return (numbers[0] - numbers[1]) * sign > 0

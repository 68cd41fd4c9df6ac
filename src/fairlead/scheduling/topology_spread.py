"""Topology spread constraints, as kube-scheduler evaluates them."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from fairlead.model.nodes import Labels, Node, NodeTable, PodRequest, TaintSet, Term
from fairlead.scheduling import selectors
from fairlead.scheduling.reasons import Cause, NodeCheck, Reason
from fairlead.scheduling.selectors import (
    Selector,
    compile_selector,
    merge_label_keys,
    selects,
    selects_everything,
    show_selected_pods,
)

HONOR = "Honor"


@dataclass(frozen=True)
class SpreadConstraint:
    """A topology spread constraint with the number of selected pods in each domain."""

    key: str  # topology key: the value of this label is the node's domain
    max_skew: int
    selector: Selector | None
    selects: Callable[[Labels], bool]
    own: int  # 1 if the constraint also selects the new pod
    min_domains: int
    honors_affinity: bool  # nodes that the pod's node affinity excludes are not counted
    honors_taints: bool  # nodes with taints that the pod does not tolerate are not counted
    counts: dict[str, int] = field(default_factory=dict)  # by domain; `prepare_spread_check` fills it

    @property
    def minimum(self) -> int:
        """The smallest number of pods in a domain; 0 if there are fewer domains than required."""
        return min(self.counts.values(), default=0) if len(self.counts) >= self.min_domains else 0


def prepare_spread_check(pod_request: PodRequest, table: NodeTable) -> NodeCheck | None:
    """A check for a pod's topology spread constraints, or None if it has none."""
    constraints = [_read_constraint(raw, pod_request) for raw in pod_request.topology_spread]
    if not constraints:
        return None
    is_counted = _compile_is_counted(pod_request)
    for node, taint_set in zip(table.nodes, table.taint_sets, strict=True):
        # kube-scheduler ignores nodes that lack one of the topology labels.
        if all(constraint.key in node.labels for constraint in constraints):
            for constraint in constraints:
                if is_counted(node, taint_set, constraint):
                    value, count = node.labels[constraint.key], _count(constraint, pod_request.namespace, node)
                    constraint.counts[value] = constraint.counts.get(value, 0) + count
    prepared = [(constraint, constraint.minimum, show_selected_pods(constraint.selector)) for constraint in constraints]

    def check(node: Node) -> Iterator[Reason]:
        for constraint, minimum, pods in prepared:
            value = node.labels.get(constraint.key)
            if value is None:
                message = f"must be spread across {constraint.key}; {node.name} has no such label"
                yield Reason(Cause.SPREAD_LABEL, "", message, lasts=True)
            elif (count := constraint.counts.get(value, 0) + constraint.own) - minimum > constraint.max_skew:
                yield Reason(Cause.SPREAD, "", _explain(constraint, pods, value, count))

    return check


def _read_constraint(raw: Term, pod_request: PodRequest) -> SpreadConstraint:
    selector = merge_label_keys(raw.get("labelSelector"), "In", raw.get("matchLabelKeys") or (), pod_request.labels)
    return SpreadConstraint(
        key=raw["topologyKey"],
        max_skew=raw["maxSkew"],
        selector=selector,
        selects=compile_selector(selector),
        own=int(selects(selector, pod_request.labels)),
        min_domains=raw.get("minDomains") or 1,
        # Kubernetes uses different defaults: Honor for node affinity, Ignore for taints.
        honors_affinity=(raw.get("nodeAffinityPolicy") or HONOR) == HONOR,
        honors_taints=raw.get("nodeTaintsPolicy") == HONOR,
    )


def _compile_is_counted(pod_request: PodRequest) -> Callable[[Node, TaintSet, SpreadConstraint], bool]:
    """A function that returns whether a node counts toward a constraint's domains."""
    matches, rejected = selectors.compile_node_matcher(pod_request), dict[TaintSet, bool]()

    def is_counted(node: Node, taint_set: TaintSet, constraint: SpreadConstraint) -> bool:
        if constraint.honors_affinity and matches is not None and not matches(node.labels, node.name):
            return False
        if not constraint.honors_taints:
            return True
        if taint_set not in rejected:
            rejected[taint_set] = bool(selectors.find_taints(pod_request, taint_set))
        return not rejected[taint_set]

    return is_counted


def _count(constraint: SpreadConstraint, namespace: str, node: Node) -> int:
    if selects_everything(constraint.selector):
        return 0  # kube-scheduler counts no pods for an empty selector
    selects_pod = constraint.selects
    selected = [pod for pod in node.pods if pod.namespace == namespace and selects_pod(pod.labels)]
    # kube-scheduler does not count terminating pods, although they still use resources.
    return sum(not pod.terminating for pod in selected)


def _explain(constraint: SpreadConstraint, pods: str, value: str, count: int) -> str:
    spread = f"spreads {pods} across {constraint.key} with a maximum skew of {constraint.max_skew}"
    if len(constraint.counts) < constraint.min_domains:
        domains = f"only {len(constraint.counts)} of {constraint.min_domains} required domains exist"
        return f"{spread}; {value} would have {count}, and {domains}"
    return f"{spread}; {value} would have {count}, and the minimum is {constraint.minimum}"

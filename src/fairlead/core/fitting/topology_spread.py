"""Whether pods stay spread over places, such as zones: no place has many more of them than another."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from fairlead.core.fitting import matching
from fairlead.core.fitting.label_selectors import Selector, compile_selector, is_empty, merge_keys, selects, show_pods
from fairlead.core.fitting.node_tables import NodeTable, TaintSet
from fairlead.core.fitting.pod_requests import PodRequest
from fairlead.core.fitting.reasons import Cause, NodeCheck, Reason
from fairlead.model.nodes import Labels, Node, Term

HONOR = "Honor"


@dataclass(frozen=True)
class SpreadConstraint:
    """A rule: over which places, how far apart their numbers may be, which pods; and how many there are in each."""

    key: str  # of the label whose value is the place of a node
    most: int
    selector: Selector | None
    takes: Callable[[Labels], bool]
    own: int  # one, where the new pod is counted with them
    fewest_places: int
    minds_labels: bool  # nodes that the pod may not be on, for their labels, are in no place
    minds_taints: bool  # or for their taints
    counts: dict[str, int] = field(default_factory=dict)

    @property
    def least(self) -> int:
        """The number in the place that has the fewest; none where there should be more places."""
        return min(self.counts.values(), default=0) if len(self.counts) >= self.fewest_places else 0


def prepare(pod_request: PodRequest, table: NodeTable) -> NodeCheck | None:
    """How nodes are asked about the numbers in their places; None where a pod is not to be spread."""
    rules = [_read_spread(said, pod_request) for said in pod_request.topology_spread]
    if not rules:
        return None
    counts_in = _compile_counts_in(pod_request)
    for node, taint_set in zip(table.nodes, table.taint_sets, strict=True):
        if all(rule.key in node.labels for rule in rules):  # a node that lacks one of the labels is in no place
            for rule in rules:
                if counts_in(node, taint_set, rule):
                    value = node.labels[rule.key]
                    rule.counts[value] = rule.counts.get(value, 0) + _count(rule, pod_request.namespace, node)
    counted = [(rule, rule.least, show_pods(rule.selector)) for rule in rules]

    def check(node: Node) -> Iterator[Reason]:
        for rule, least, shown in counted:
            value = node.labels.get(rule.key)
            if value is None:
                message = f"is spread over {rule.key}; {node.name} has no such label"
                yield Reason(Cause.SPREAD_LABEL, "", message, lasts=True)
            elif (count := rule.counts.get(value, 0) + rule.own) - least > rule.most:
                yield Reason(Cause.SPREAD, "", f"spreads {shown} over {_explain(rule, value, count)}")

    return check


def _read_spread(said: Term, pod_request: PodRequest) -> SpreadConstraint:
    selector = merge_keys(said.get("labelSelector"), "In", said.get("matchLabelKeys") or (), pod_request.labels)
    return SpreadConstraint(
        key=said["topologyKey"],
        most=said["maxSkew"],
        selector=selector,
        takes=compile_selector(selector),
        own=int(selects(selector, pod_request.labels)),
        fewest_places=said.get("minDomains") or 1,
        minds_labels=(said.get("nodeAffinityPolicy") or HONOR) == HONOR,
        minds_taints=said.get("nodeTaintsPolicy") == HONOR,
    )


def _compile_counts_in(pod_request: PodRequest) -> Callable[[Node, TaintSet, SpreadConstraint], bool]:
    """Whether a node is in a place of a rule."""
    suits, shut = matching.compile_node_matcher(pod_request), dict[TaintSet, bool]()

    def counts_in(node: Node, taint_set: TaintSet, rule: SpreadConstraint) -> bool:
        if rule.minds_labels and suits is not None and not suits(node.labels, node.name):
            return False
        if not rule.minds_taints:
            return True
        if taint_set not in shut:
            shut[taint_set] = bool(matching.find_taints(pod_request, taint_set))
        return not shut[taint_set]

    return counts_in


def _count(rule: SpreadConstraint, namespace: str, node: Node) -> int:
    """How many pods of a rule are on a node. Where every pod is one, kube-scheduler counts none."""
    if is_empty(rule.selector):
        return 0
    takes = rule.takes
    there = [held for held in node.holdings if held.namespace == namespace and takes(held.labels)]
    return sum(not held.leaving for held in there)


def _explain(rule: SpreadConstraint, value: str, count: int) -> str:
    """Where there are too few places, that is why the least of them is none."""
    said = f"{rule.key}, at most {rule.most} apart; {value} would have {count}"
    if len(rule.counts) < rule.fewest_places:
        return f"{said}, and there are {len(rule.counts)} of the {rule.fewest_places} places that it asks for"
    return f"{said}, and the least has {rule.least}"

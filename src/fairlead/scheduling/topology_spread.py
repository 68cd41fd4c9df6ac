"""Topology spread constraints, as kube-scheduler evaluates them."""

from collections import Counter
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass

from fairlead.model.nodes import NodeTable, PodRequest, Term
from fairlead.scheduling import selectors
from fairlead.scheduling.reasons import Cause, DomainCheck
from fairlead.scheduling.selectors import (
    PodSelector,
    Selector,
    merge_label_keys,
    selects,
    selects_everything,
    show_selected_pods,
)

HONOR = "Honor"


@dataclass(frozen=True)
class SpreadConstraint:
    """A topology spread constraint."""

    key: str  # topology key: the value of this label is the node's domain
    max_skew: int
    selector: Selector | None
    own: int  # 1 if the constraint also selects the new pod
    min_domains: int
    honors_affinity: bool  # nodes that the pod's node affinity excludes are not counted
    honors_taints: bool  # nodes with taints that the pod does not tolerate are not counted


def prepare_spread_checks(pod_request: PodRequest, table: NodeTable) -> list[DomainCheck]:
    """The checks for a pod's topology spread constraints."""
    constraints = [_read_constraint(raw, pod_request) for raw in pod_request.topology_spread]
    keys = {constraint.key for constraint in constraints}
    return [_prepare(constraint, _count(constraint, keys, pod_request, table), table) for constraint in constraints]


def _prepare(constraint: SpreadConstraint, counts: Mapping[str | None, int], table: NodeTable) -> DomainCheck:
    key, max_skew, own = constraint.key, constraint.max_skew, constraint.own
    enough = len(counts) >= constraint.min_domains
    minimum = min(counts.values(), default=0) if enough else 0
    most = max_skew + minimum - own
    excluded = {value for value in table.domains_of(key) if counts.get(value, 0) > most}
    spread = f"spreads {show_selected_pods(constraint.selector)} across {key} with a maximum skew of {max_skew}"
    why = f"the minimum is {minimum}"
    if not enough:
        why = f"only {len(counts)} of {constraint.min_domains} required domains exist"

    def explain(node_name: str, value: str | None) -> str:
        if value is None:
            return f"must be spread across {key}; {node_name} has no such label"
        return f"{spread}; {value} would have {counts.get(value, 0) + own}, and {why}"

    return DomainCheck(key, excluded, Cause.SPREAD, Cause.SPREAD_LABEL, "", explain)


def _read_constraint(raw: Term, pod_request: PodRequest) -> SpreadConstraint:
    selector = merge_label_keys(raw.get("labelSelector"), "In", raw.get("matchLabelKeys") or (), pod_request.labels)
    return SpreadConstraint(
        key=raw["topologyKey"],
        max_skew=raw["maxSkew"],
        selector=selector,
        own=int(selects(selector, pod_request.labels)),
        min_domains=raw.get("minDomains") or 1,
        # Kubernetes uses different defaults: Honor for node affinity, Ignore for taints.
        honors_affinity=(raw.get("nodeAffinityPolicy") or HONOR) == HONOR,
        honors_taints=raw.get("nodeTaintsPolicy") == HONOR,
    )


def _count(
    constraint: SpreadConstraint, keys: Set[str], pod_request: PodRequest, table: NodeTable
) -> dict[str | None, int]:
    """The number of selected pods in each domain. `keys`: the topology keys of all constraints of the pod."""
    positions: Sequence[int] = range(len(table))
    if constraint.honors_affinity:
        positions = selectors.match_nodes(pod_request, table)
    if constraint.honors_taints:
        positions = selectors.without_taint_sets(
            lambda taint_set: bool(selectors.find_taints(pod_request, taint_set)), table, positions
        )
    # kube-scheduler ignores nodes that lack one of the topology labels.
    for key in keys:
        values = table.values_of(key)
        positions = [at for at in positions if values[at] is not None]
    values, counted = table.values_of(constraint.key), set(positions)
    counts = dict.fromkeys({values[at] for at in positions}, 0)
    # kube-scheduler counts no pods for an empty selector.
    if not selects_everything(constraint.selector):
        selector = PodSelector(constraint.selector, frozenset([pod_request.namespace]))
        # kube-scheduler does not count terminating pods, although they still use resources.
        found = selector.find_positions(table, terminating=False)
        counts |= Counter(values[at] for at in found if at in counted)
    return counts

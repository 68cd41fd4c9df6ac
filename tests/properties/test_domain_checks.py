"""Inter-pod affinity and topology spread, compared with a plain evaluation of each node and pod."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.model.nodes import Labels, Node, NodeTable, PodRequest, ScheduledPod, taint_set_of
from fairlead.scheduling import pod_affinity, selectors
from fairlead.scheduling.reasons import Cause
from fairlead.scheduling.selectors import merge_label_keys, selects
from tests.properties.clusters import PARTS, node_tables, pod_requests
from tests.properties.test_evaluation import changes
from tests.suites import examples

Pod = PodRequest | ScheduledPod

RULES = ("pod_affinity", "pod_anti_affinity", "topology_spread")


def is_selected(term: Any, owner: Pod, pod: Pod, table: NodeTable) -> bool:
    """Whether an affinity term of `owner` selects a pod."""
    selector = merge_label_keys(term["labelSelector"], "In", term.get("matchLabelKeys", ()), owner.labels)
    selector = merge_label_keys(selector, "NotIn", term.get("mismatchLabelKeys", ()), owner.labels)
    named, namespace_selector = term.get("namespaces", ()), term.get("namespaceSelector")
    in_namespace = pod.namespace in (named or () if namespace_selector else named or (owner.namespace,))
    if namespace_selector is not None:
        in_namespace |= selects(namespace_selector, table.context.namespaces.get(pod.namespace, {}))
    return in_namespace and selects(selector, pod.labels)


def share_domain(term: Any, one: Labels, other: Labels) -> bool:
    key = term["topologyKey"]
    return key in one and key in other and one[key] == other[key]


def list_causes(pod_request: PodRequest, node: Node, table: NodeTable) -> Iterator[Cause]:
    """Why other pods exclude a node, found by comparing the request with each pod in the cluster."""
    pods = [(other.labels, pod) for other in table for pod in other.pods]
    terms = pod_request.pod_affinity
    near = [labels for labels, pod in pods if all(is_selected(term, pod_request, pod, table) for term in terms)]
    has_domain = any(term["topologyKey"] in labels for labels in near for term in terms)
    is_first = not has_domain and all(is_selected(term, pod_request, pod_request, table) for term in terms)
    for term in terms:
        exists = is_first or any(share_domain(term, labels, node.labels) for labels in near)
        if term["topologyKey"] not in node.labels or not exists:
            yield Cause.POD_AFFINITY
    for term in pod_request.pod_anti_affinity:
        for labels, pod in pods:
            if share_domain(term, labels, node.labels) and is_selected(term, pod_request, pod, table):
                yield Cause.POD_ANTI_AFFINITY
    for labels, pod in pods:
        for term in pod.anti_affinity:
            if share_domain(term, labels, node.labels) and is_selected(term, pod, pod_request, table):
                yield Cause.REPELLED
    yield from (cause for raw in pod_request.topology_spread if (cause := check_spread(raw, pod_request, node, table)))


def check_spread(raw: Any, pod_request: PodRequest, node: Node, table: NodeTable) -> Cause | None:
    """Whether a topology spread constraint excludes a node, and why."""
    key = raw["topologyKey"]
    if key not in node.labels:
        return Cause.SPREAD_LABEL
    selector = merge_label_keys(raw["labelSelector"], "In", raw.get("matchLabelKeys", ()), pod_request.labels)
    counts: dict[str, int] = {}
    for other in table:
        labels = other.labels
        if all(each["topologyKey"] in labels for each in pod_request.topology_spread) and is_counted(
            raw, pod_request, other
        ):
            counted = [pod for pod in other.pods if pod.namespace == pod_request.namespace and not pod.terminating]
            number = sum(selects(selector, pod.labels) for pod in counted) if selector else 0
            counts[labels[key]] = counts.get(labels[key], 0) + number
    minimum = min(counts.values(), default=0) if len(counts) >= raw.get("minDomains", 1) else 0
    own = selects(selector, pod_request.labels)
    return Cause.SPREAD if counts.get(node.labels[key], 0) + own - minimum > raw["maxSkew"] else None


def is_counted(raw: Any, pod_request: PodRequest, node: Node) -> bool:
    """Whether a node counts toward the domains of a topology spread constraint."""
    if raw.get("nodeTaintsPolicy") == "Honor" and selectors.find_taints(pod_request, taint_set_of(node)):
        return False
    if raw.get("nodeAffinityPolicy", "Honor") == "Ignore":
        return True
    has_labels = all(node.labels.get(label) == value for label, value in pod_request.node_selector.items())
    return has_labels and selectors.matches_node_affinity(pod_request, node.labels, node.name)


@settings(max_examples=examples(fast=150, all=1000))  # few of the random clusters have pods in conflict
@given(pod_requests(), st.sampled_from(RULES), node_tables(), st.data())
def test_domain_checks_equal_a_plain_evaluation(
    pod_request: PodRequest, rule: str, table: NodeTable, data: st.DataObject
) -> None:
    pod_request = replace(pod_request, **{rule: data.draw(PARTS[rule])})
    pod_affinity.prepare_affinity_checks(pod_request, table)  # builds the indexes that the changes make out of date
    for change in data.draw(st.lists(changes(), max_size=3)):
        change(table)
    checks = pod_affinity.prepare_affinity_checks(pod_request, table)
    excluded = set()
    for at, node in enumerate(table):
        expected = set(list_causes(pod_request, node, table))
        assert {reason.cause for check in checks for reason in check.check(node)} == expected
        excluded |= {at} if expected else set()
    positions: Any = range(len(table))
    for check in checks:
        positions = check.keep(table, positions)
    assert set(positions) == set(range(len(table))) - excluded

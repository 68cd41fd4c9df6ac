"""Inter-pod affinity and anti-affinity, as kube-scheduler evaluates them."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from fairlead.model.nodes import Labels, NodeTable, PodRequest, ScheduledPod, Term
from fairlead.scheduling import node_indexes, topology_spread
from fairlead.scheduling.reasons import Cause, DomainCheck
from fairlead.scheduling.selectors import PodSelector, Selector, merge_label_keys, selects, show_selected_pods

PATH = "affinity"
HOSTNAME = "kubernetes.io/hostname"


class AffinityTerm(NamedTuple):
    """A term of pod affinity or anti-affinity. Nodes with the same value for the `key` label form a topology domain."""

    key: str
    pods: PodSelector
    shown: str


@dataclass(slots=True)
class Matches:
    """Selected pods in one topology domain: their number, the first one and its node."""

    number: int
    example: ScheduledPod
    node: str


def prepare_affinity_checks(pod_request: PodRequest, table: NodeTable) -> list[DomainCheck]:
    """The checks for affinity, anti-affinity and topology spread that affect the pod."""
    return [
        *_prepare_affinity(pod_request, table),
        *_prepare_anti_affinity(pod_request, table),
        *_prepare_existing_anti_affinity(pod_request, table),
        *topology_spread.prepare_spread_checks(pod_request, table),
    ]


def count_domains(pod_request: PodRequest, table: NodeTable, positions: Sequence[int]) -> int | None:
    """How many identical pods with anti-affinity to each other fit on the nodes; None without such anti-affinity."""
    # Only terms that select the pod itself matter here, because pods of the same run have the same labels.
    keys = [
        term.key
        for term in _read_terms(pod_request.pod_anti_affinity, pod_request, table)
        if term.pods.selects(pod_request)
    ]
    # A term does not apply to nodes without its label, so each of these nodes counts as a domain.
    columns = [table.values_of(key) for key in keys]
    domains = [{at if (value := values[at]) is None else value for at in positions} for values in columns]
    return min(map(len, domains), default=None)


def _prepare_affinity(pod_request: PodRequest, table: NodeTable) -> list[DomainCheck]:
    """The pod must run in the same domain as a pod that all terms select. The first pod of a group may run anywhere."""
    terms = _read_terms(pod_request.pod_affinity, pod_request, table)
    if not terms:
        return []
    occupied: dict[str, set[str | None]] = {term.key: {None} for term in terms}
    columns = [(table.values_of(key), domains) for key, domains in occupied.items()]
    for at, pod in terms[0].pods.find(table):
        # If all domains of a node are already known, its pods do not need to be examined.
        if any(values[at] not in domains for values, domains in columns) and _all_select(terms[1:], pod):
            for values, domains in columns:
                domains.add(values[at])
    # kube-scheduler has this rule because pods with affinity to each other could otherwise never start.
    is_first = not any(domains != {None} for domains in occupied.values()) and _all_select(terms, pod_request)
    wanted = " and ".join(dict.fromkeys(term.shown for term in terms))

    def prepare(key: str) -> DomainCheck:
        def explain(node_name: str, value: str | None) -> str:
            near = f"must run near {wanted} (same {key})"
            if value is None:
                return f"{near}; {node_name} has no such label"
            return f"{near}; there are none {f'on {node_name}' if key == HOSTNAME else f'in {value}'}"

        excluded = frozenset[str]() if is_first else table.domains_of(key) - occupied[key]
        return DomainCheck(key, excluded, Cause.POD_AFFINITY, Cause.POD_AFFINITY, PATH, explain)

    return [prepare(key) for key in occupied]


def _prepare_anti_affinity(pod_request: PodRequest, table: NodeTable) -> list[DomainCheck]:
    """The pod must not run in the same domain as a pod that a term selects."""

    def prepare(term: AffinityTerm) -> DomainCheck:
        values, positions = table.values_of(term.key), term.pods.find_positions(table)
        # Iterate in reverse, so that the dict keeps the first node of each domain.
        first = {value: at for at in reversed(positions) if (value := values[at]) is not None}
        numbers = Counter(map(values.__getitem__, positions))

        def explain(_node_name: str, value: str | None) -> str:
            one = "one is" if numbers[value] == 1 else f"there are {numbers[value]}, one of them"
            node_name = table.names[first[value or ""]]
            return f"must not run near {term.shown} (same {term.key}); {one} on {node_name}"

        return DomainCheck(term.key, first.keys(), Cause.POD_ANTI_AFFINITY, None, PATH, explain)

    return [prepare(term) for term in _read_terms(pod_request.pod_anti_affinity, pod_request, table)]


def _prepare_existing_anti_affinity(pod_request: PodRequest, table: NodeTable) -> list[DomainCheck]:
    """The new pod must not run in the same domain as a pod whose anti-affinity selects it."""
    namespace_labels = table.context.namespaces.get(pod_request.namespace, {})
    by_key: dict[str, dict[str, Matches]] = {}
    existing = node_indexes.anti_affinity_terms(table)
    # Pods of one Deployment have the same term, so each distinct term is evaluated once.
    selecting = {
        key
        for key, (_, pod, term) in existing.examples.items()
        if _selects_new_pod(term, pod, pod_request, namespace_labels)
    }
    # Few nodes have one of these terms. Their terms are added in order, because the first one is the example.
    for at in dict.fromkeys(at for at, _ in existing.find(selecting)):
        for term_key, pod, term in table.nodes[at].anti_affinity_terms:
            if term_key in selecting:
                key = term["topologyKey"]
                _add(by_key.setdefault(key, {}), table.values_of(key)[at], pod, table.names[at])

    def prepare(key: str, by_domain: dict[str, Matches]) -> DomainCheck:
        def explain(_node_name: str, value: str | None) -> str:
            matches = by_domain[value or ""]
            name = f"{table.visible_name(matches.example) or 'a pod'} on {matches.node}"
            more = f" and {matches.number - 1} more" if matches.number > 1 else ""
            return f"conflicts with the anti-affinity (same {key}) of {name}{more}"

        return DomainCheck(key, by_domain.keys(), Cause.REPELLED, None, "", explain)

    return [prepare(key, by_domain) for key, by_domain in by_key.items() if by_domain]


def _read_terms(raw_terms: Sequence[Term], pod_request: PodRequest, table: NodeTable) -> list[AffinityTerm]:
    terms = []
    for term in raw_terms:
        namespaces, selector = _find_namespaces(term, pod_request, table), _merge(term, pod_request.labels)
        terms.append(AffinityTerm(term["topologyKey"], PodSelector(selector, namespaces), show_selected_pods(selector)))
    return terms


def _merge(term: Term, labels: Labels) -> Selector | None:
    """The label selector of a term with its matchLabelKeys and mismatchLabelKeys."""
    selector = merge_label_keys(term.get("labelSelector"), "In", term.get("matchLabelKeys") or (), labels)
    return merge_label_keys(selector, "NotIn", term.get("mismatchLabelKeys") or (), labels)


def _find_namespaces(term: Term, pod_request: PodRequest, table: NodeTable) -> frozenset[str] | None:
    """The namespaces of a term: those it names or selects, or by default the pod's own; None for all."""
    selector, named = term.get("namespaceSelector"), term.get("namespaces") or ()
    if selector is None:
        return frozenset(named or (pod_request.namespace,))
    # kube-scheduler treats a selector that matches an unlabeled namespace as one that matches every namespace.
    if selects(selector, {}):
        return None
    known = table.context.namespaces.items()
    return frozenset([*named, *(name for name, labels in known if selects(selector, labels))])


def _all_select(terms: Sequence[AffinityTerm], pod: PodRequest | ScheduledPod) -> bool:
    return all(term.pods.selects(pod) for term in terms)


def _selects_new_pod(term: Term, pod: ScheduledPod, pod_request: PodRequest, namespace_labels: Labels) -> bool:
    """Whether an anti-affinity term of a running pod selects the new pod."""
    # The cheapest test comes first, because most terms select other pods.
    if not selects(term.get("labelSelector"), pod_request.labels):
        return False
    selector, named = term.get("namespaceSelector"), term.get("namespaces") or ()
    is_own = not named and selector is None and pod.namespace == pod_request.namespace
    if not is_own and pod_request.namespace not in named and not selects(selector, namespace_labels):
        return False
    # The keys are merged with the labels of the pod that has the term, not those of the new pod.
    return selects(_merge(term, pod.labels), pod_request.labels)


def _add(by_domain: dict[str, Matches], value: str | None, pod: ScheduledPod, node_name: str) -> None:
    """Add a selected pod. A node without the topology label is in no domain."""
    if value is None:
        return
    if (matches := by_domain.get(value)) is None:
        by_domain[value] = Matches(1, pod, node_name)
    else:
        matches.number += 1

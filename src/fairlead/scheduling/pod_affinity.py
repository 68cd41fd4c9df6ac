"""Inter-pod affinity and anti-affinity, as kube-scheduler evaluates them."""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, TypeVar

from fairlead.model.nodes import Labels, Node, NodeTable, PodRequest, ScheduledPod, Term
from fairlead.scheduling import topology_spread
from fairlead.scheduling.reasons import Cause, NodeCheck, Reason
from fairlead.scheduling.selectors import Selector, compile_selector, merge_label_keys, selects, show_selected_pods

PATH = "affinity"
HOSTNAME = "kubernetes.io/hostname"

Pod = TypeVar("Pod", PodRequest, ScheduledPod)


class AffinityTerm(NamedTuple):
    """A term of pod affinity or anti-affinity. Nodes with the same value for the `key` label form a topology domain."""

    key: str
    namespaces: frozenset[str] | None  # None: all
    selects: Callable[[Labels], bool]
    shown: str

    def among(self, pods: Sequence[Pod]) -> list[Pod]:
        """The pods that the term selects."""
        namespaces, selects = self.namespaces, self.selects
        return [pod for pod in pods if (namespaces is None or pod.namespace in namespaces) and selects(pod.labels)]


class Matches(NamedTuple):
    """Selected pods in one topology domain: their number and one example."""

    number: int
    example: ScheduledPod
    node: str


def prepare_affinity_check(pod_request: PodRequest, table: NodeTable) -> NodeCheck | None:
    """A check for affinity, anti-affinity and topology spread, or None if none of them affect the pod."""
    parts = (
        _prepare_affinity,
        _prepare_anti_affinity,
        _prepare_existing_anti_affinity,
        topology_spread.prepare_spread_check,
    )
    checks = [check for part in parts if (check := part(pod_request, table)) is not None]

    def check_all(node: Node) -> Iterator[Reason]:
        for check in checks:
            yield from check(node)

    return check_all if len(checks) > 1 else next(iter(checks), None)


def count_domains(pod_request: PodRequest, table: NodeTable, positions: Sequence[int]) -> int | None:
    """How many identical pods with anti-affinity to each other fit on the nodes; None without such anti-affinity."""
    # Only terms that select the pod itself matter here, because pods of the same run have the same labels.
    keys = [
        term.key for term in _read_terms(pod_request.pod_anti_affinity, pod_request, table) if term.among([pod_request])
    ]
    # A term does not apply to nodes without its label, so each of these nodes counts as a domain.
    domains = [{table.labels[at].get(key, at) for at in positions} for key in keys]
    return min(map(len, domains), default=None)


def _prepare_affinity(pod_request: PodRequest, table: NodeTable) -> NodeCheck | None:
    """The pod must run in the same domain as a pod that all terms select. The first pod of a group may run anywhere."""
    terms = _read_terms(pod_request.pod_affinity, pod_request, table)
    if not terms:
        return None
    keys = tuple(dict.fromkeys(term.key for term in terms))
    occupied: set[tuple[str, str]] = set()
    for node in table.nodes:
        domains = {(key, node.labels[key]) for key in keys if key in node.labels}
        # If all domains of a node are already known, its pods do not need to be examined.
        if not domains <= occupied and _select_all(terms, node.pods):
            occupied |= domains
    # kube-scheduler has this rule because pods with affinity to each other could otherwise never start.
    is_first = not occupied and bool(_select_all(terms, [pod_request]))
    wanted = " and ".join(dict.fromkeys(term.shown for term in terms))

    def check(node: Node) -> Iterator[Reason]:
        for key in keys:
            value = node.labels.get(key)
            if value is None:
                message = f"must run near {wanted} (same {key}); {node.name} has no such label"
                yield Reason(Cause.POD_AFFINITY, PATH, message, lasts=True)
            elif not is_first and (key, value) not in occupied:
                place = f"on {node.name}" if key == HOSTNAME else f"in {value}"
                yield Reason(Cause.POD_AFFINITY, PATH, f"must run near {wanted} (same {key}); there are none {place}")

    return check


def _prepare_anti_affinity(pod_request: PodRequest, table: NodeTable) -> NodeCheck | None:
    """The pod must not run in the same domain as a pod that a term selects."""
    terms = [(term, dict[str, Matches]()) for term in _read_terms(pod_request.pod_anti_affinity, pod_request, table)]
    if not terms:
        return None
    for node in table.nodes:
        for term, by_domain in terms:
            if (value := node.labels.get(term.key)) is not None:
                for pod in term.among(node.pods):
                    _add(by_domain, value, pod, node)

    def check(node: Node) -> Iterator[Reason]:
        for term, by_domain in terms:
            value = node.labels.get(term.key)
            if value is not None and (matches := by_domain.get(value)) is not None:
                one = "one is" if matches.number == 1 else f"there are {matches.number}, one of them"
                message = f"must not run near {term.shown} (same {term.key}); {one} on {matches.node}"
                yield Reason(Cause.POD_ANTI_AFFINITY, PATH, message)

    return check


def _prepare_existing_anti_affinity(pod_request: PodRequest, table: NodeTable) -> NodeCheck | None:
    """The new pod must not run in the same domain as a pod whose anti-affinity selects it."""
    by_key: dict[str, dict[str, Matches]] = {}
    namespace_labels = table.context.namespaces.get(pod_request.namespace, {})
    selected: dict[str, bool] = {}  # by term, because many pods have equal terms
    for node in table.nodes:
        for key, pod, term in node.anti_affinity_terms:
            if key not in selected:
                # Pods of one Deployment have the same term, and evaluating it is slower than this lookup.
                selected[key] = _selects_new_pod(term, pod, pod_request, namespace_labels)
            if selected[key] and (value := node.labels.get(term["topologyKey"])) is not None:
                _add(by_key.setdefault(term["topologyKey"], {}), value, pod, node)
    if not by_key:
        return None

    def check(node: Node) -> Iterator[Reason]:
        for key, by_domain in by_key.items():
            value = node.labels.get(key)
            if value is not None and (matches := by_domain.get(value)) is not None:
                name = f"{table.visible_name(matches.example) or 'a pod'} on {matches.node}"
                more = f" and {matches.number - 1} more" if matches.number > 1 else ""
                yield Reason(Cause.REPELLED, "", f"conflicts with the anti-affinity (same {key}) of {name}{more}")

    return check


def _read_terms(raw_terms: Sequence[Term], pod_request: PodRequest, table: NodeTable) -> list[AffinityTerm]:
    terms = []
    for term in raw_terms:
        namespaces, selector = _find_namespaces(term, pod_request, table), _merge(term, pod_request.labels)
        terms.append(
            AffinityTerm(term["topologyKey"], namespaces, compile_selector(selector), show_selected_pods(selector))
        )
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


def _select_all(terms: Sequence[AffinityTerm], pods: Sequence[Pod]) -> Sequence[Pod]:
    """The pods that all terms select."""
    for term in terms:
        pods = term.among(pods)
    return pods


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


def _add(by_domain: dict[str, Matches], value: str, pod: ScheduledPod, node: Node) -> None:
    before = by_domain.get(value)
    by_domain[value] = Matches(1, pod, node.name) if before is None else before._replace(number=before.number + 1)

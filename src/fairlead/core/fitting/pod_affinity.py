"""Whether the pods that are there bear a new one, and it them: pod affinity and anti-affinity, and spreading."""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, TypeVar

from fairlead.core.fitting import topology_spread
from fairlead.core.fitting.label_selectors import Selector, compile_selector, merge_keys, selects, show_pods
from fairlead.core.fitting.node_tables import NodeTable
from fairlead.core.fitting.pod_requests import PodRequest
from fairlead.core.fitting.reasons import Cause, NodeCheck, Reason
from fairlead.model.nodes import Holding, Labels, Node, Term

PATH = "affinity"
HOSTNAME = "kubernetes.io/hostname"

Pod = TypeVar("Pod", PodRequest, Holding)


class AffinityTerm(NamedTuple):
    """Pods that a term is about. Nodes that share the value of the key's label are near to each other."""

    key: str
    namespaces: frozenset[str] | None  # None: all
    takes: Callable[[Labels], bool]
    shown: str

    def among(self, pods: Sequence[Pod]) -> list[Pod]:
        """Those of some pods that it is about."""
        spaces, takes = self.namespaces, self.takes
        return [pod for pod in pods if (spaces is None or pod.namespace in spaces) and takes(pod.labels)]


class Found(NamedTuple):
    """Pods that were found near each other: how many, and one of them."""

    number: int
    one: Holding
    node: str


def prepare(pod_request: PodRequest, table: NodeTable) -> NodeCheck | None:
    """How nodes are asked about the pods around them; None where nothing about those matters."""
    parts = (_prepare_near, _prepare_far, _prepare_repelled, topology_spread.prepare)
    checks = [check for part in parts if (check := part(pod_request, table)) is not None]

    def check_all(node: Node) -> Iterator[Reason]:
        for check in checks:
            yield from check(node)

    return check_all if len(checks) > 1 else next(iter(checks), None)


def count_domains(pod_request: PodRequest, table: NodeTable, positions: Sequence[int]) -> int | None:
    """On how many of some nodes pods can be that do not bear each other; None where they do."""
    keys = [
        term.key for term in _read_terms(pod_request.pod_anti_affinity, pod_request, table) if term.among([pod_request])
    ]
    places = [{table.labels[at].get(key, at) for at in positions} for key in keys]
    return min(map(len, places), default=None)


def _prepare_near(pod_request: PodRequest, table: NodeTable) -> NodeCheck | None:
    """A pod must be near that all terms are about. The first of pods that want each other may go anywhere."""
    terms = _read_terms(pod_request.pod_affinity, pod_request, table)
    if not terms:
        return None
    keys = tuple(dict.fromkeys(term.key for term in terms))
    found: set[tuple[str, str]] = set()
    for node in table.nodes:
        places = {(key, node.labels[key]) for key in keys if key in node.labels}
        if not places <= found and _find_meant(terms, node.holdings):
            found |= places
    is_first = not found and bool(_find_meant(terms, [pod_request]))
    wanted = " and ".join(dict.fromkeys(term.shown for term in terms))

    def check(node: Node) -> Iterator[Reason]:
        for key in keys:
            value = node.labels.get(key)
            if value is None:
                message = f"must be near {wanted} (same {key}); {node.name} has no such label"
                yield Reason(Cause.NEAR, PATH, message, lasts=True)
            elif not is_first and (key, value) not in found:
                where = f"on {node.name}" if key == HOSTNAME else f"in {value}"
                yield Reason(Cause.NEAR, PATH, f"must be near {wanted} (same {key}); there are none {where}")

    return check


def _prepare_far(pod_request: PodRequest, table: NodeTable) -> NodeCheck | None:
    """No pod may be near that a term is about."""
    terms = [(term, dict[str, Found]()) for term in _read_terms(pod_request.pod_anti_affinity, pod_request, table)]
    if not terms:
        return None
    for node in table.nodes:
        for term, found in terms:
            if (value := node.labels.get(term.key)) is not None:
                for held in term.among(node.holdings):
                    _add(found, value, held, node)

    def check(node: Node) -> Iterator[Reason]:
        for term, found in terms:
            value = node.labels.get(term.key)
            if value is not None and (there := found.get(value)) is not None:
                one = "one is" if there.number == 1 else f"of {there.number}, one is"
                message = f"must not be near {term.shown} (same {term.key}); {one} on {there.node}"
                yield Reason(Cause.FAR, PATH, message)

    return check


def _prepare_repelled(pod_request: PodRequest, table: NodeTable) -> NodeCheck | None:
    """No pod may be near that does not bear this one."""
    found: dict[str, dict[str, Found]] = {}
    namespace_labels = table.context.namespaces.get(pod_request.namespace, {})
    about: dict[str, bool] = {}  # many pods have the same terms
    for node in table.nodes:
        for key, held, term in node.repelling:
            if key not in about:
                about[key] = _is_about(term, held, pod_request, namespace_labels)
            if about[key] and (value := node.labels.get(term["topologyKey"])) is not None:
                _add(found.setdefault(term["topologyKey"], {}), value, held, node)
    if not found:
        return None

    def check(node: Node) -> Iterator[Reason]:
        for key, places in found.items():
            value = node.labels.get(key)
            if value is not None and (there := places.get(value)) is not None:
                who = f"{table.visible_name(there.one) or 'a pod'} on {there.node}"
                more = f", nor do{'es' * (there.number == 2)} {there.number - 1} more" if there.number > 1 else ""
                yield Reason(Cause.REPELLED, "", f"{who} bears no such pod near it (same {key}){more}")

    return check


def _read_terms(said: Sequence[Term], pod_request: PodRequest, table: NodeTable) -> list[AffinityTerm]:
    terms = []
    for term in said:
        namespaces, selector = _find_namespaces(term, pod_request, table), _merge(term, pod_request.labels)
        terms.append(AffinityTerm(term["topologyKey"], namespaces, compile_selector(selector), show_pods(selector)))
    return terms


def _merge(term: Term, labels: Labels) -> Selector | None:
    """Which pods a term is about. What the server merges into those that it is given may not be merged yet."""
    wanted = merge_keys(term.get("labelSelector"), "In", term.get("matchLabelKeys") or (), labels)
    return merge_keys(wanted, "NotIn", term.get("mismatchLabelKeys") or (), labels)


def _find_namespaces(term: Term, pod_request: PodRequest, table: NodeTable) -> frozenset[str] | None:
    """Where a term of the new pod looks for others: what it names and what it selects, else its own namespace.

    A selector that takes a namespace without labels takes all of them, as kube-scheduler has it, whatever theirs are.
    """
    selector, named = term.get("namespaceSelector"), term.get("namespaces") or ()
    if selector is None:
        return frozenset(named or (pod_request.namespace,))
    if selects(selector, {}):
        return None
    known = table.context.namespaces.items()
    return frozenset([*named, *(name for name, labels in known if selects(selector, labels))])


def _find_meant(terms: Sequence[AffinityTerm], pods: Sequence[Pod]) -> Sequence[Pod]:
    """Those of some pods that all terms are about."""
    for term in terms:
        pods = term.among(pods)
    return pods


def _is_about(term: Term, held: Holding, pod_request: PodRequest, namespace_labels: Labels) -> bool:
    """Whether a term of a pod that is there is about the new one, whose namespace has these labels."""
    if not selects(
        term.get("labelSelector"), pod_request.labels
    ):  # before what takes longer: mostly, it is about others
        return False
    selector, named = term.get("namespaceSelector"), term.get("namespaces") or ()
    is_own = not named and selector is None and held.namespace == pod_request.namespace
    if not is_own and pod_request.namespace not in named and not selects(selector, namespace_labels):
        return False
    return selects(_merge(term, held.labels), pod_request.labels)


def _add(found: dict[str, Found], value: str, held: Holding, node: Node) -> None:
    before = found.get(value)
    found[value] = Found(1, held, node.name) if before is None else before._replace(number=before.number + 1)

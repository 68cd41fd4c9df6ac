"""The running scheduler puts pods where we say that they fit, and says of those that fit nowhere what we say."""

import json
import re
import time
from collections import Counter
from collections.abc import Iterator
from functools import cache
from random import Random
from typing import Any

import pytest

from fairlead.core.fitting import evaluation
from fairlead.core.fitting.filtering import NodeFilter
from fairlead.core.fitting.reasons import Cause
from fairlead.model.nodes import Node
from tests.cluster import control_planes
from tests.cluster.clients import Client, path_of
from tests.cluster.filtering import clusters, comparing
from tests.cluster.filtering.affinities import REQUIRED
from tests.cluster.filtering.cases import make_case

JSON = dict[str, Any]

FITTING, UNFITTING = 30, 30  # cases of each kind
FIRST_SEED, TRIED = 1_000_000, 600
SEEN_SECONDS = 0.2  # until the scheduler has seen what was created before the pod
DECIDED_SECONDS = 15.0
# The filter plugins in their order. The scheduler reports the first failure per node.
ORDER: list[tuple[Cause, ...]] = [
    *[(Cause.CORDONED,), (Cause.NODE_NAME,), (Cause.TAINT,), (Cause.LABELS,), (Cause.PORTS,), (Cause.AMOUNT,)],
    *[(Cause.IN_USE,), (Cause.VOLUME,), (Cause.ZONE,)],
    *[(Cause.SPREAD_LABEL, Cause.SPREAD), (Cause.POD_AFFINITY, Cause.POD_ANTI_AFFINITY, Cause.REPELLED)],
]
NARROWED = "node(s) didn't satisfy plugin"  # of nodes that it did not look at, for the pod names others


@pytest.fixture(scope="module")
def admin() -> Iterator[Client]:
    """An API server and a scheduler, without anything else that changes objects."""
    with control_planes.running() as plane, plane.client() as admin:
        plane.stop_manager()
        clusters.prepare(admin)
        yield admin


@pytest.fixture
def cleared(admin: Client) -> Iterator[None]:
    """Nothing of this case is there for the next one."""
    yield
    clusters.clear(admin)


@pytest.mark.parametrize("number", range(FITTING + UNFITTING))
@pytest.mark.usefixtures("cleared")
def test_scheduler_agrees_with_the_node_filter(admin: Client, number: int) -> None:
    case = choose_cases()[number]
    clusters.set_up(admin, case)
    time.sleep(SEEN_SECONDS)
    pod = admin.create(case["pod"])
    node_filter = comparing.make_sieve(clusters.read_back(admin, pod))
    feasible = {node_filter.table.names[at] for at in node_filter.feasible}
    end, node, message = time.monotonic() + DECIDED_SECONDS, None, None
    while time.monotonic() < end:
        node, message = read_decision(admin, pod)
        if node is not None or (message is not None and not feasible and agrees(message, node_filter)):
            break
        time.sleep(0.02)
    if feasible:
        assert node in feasible, message
    else:
        assert node is None
        assert message is not None
        assert agrees(message, node_filter), f"{message}\nwe say: {total_capacity(node_filter)}"


@cache
def choose_cases() -> list[JSON]:
    """As many of each kind, as they are before the API server has them; first those that bring a cause of their own."""
    fitting, telling, others = list[JSON](), list[JSON](), list[JSON]()
    covered: set[str] = set()
    for seed in range(FIRST_SEED, FIRST_SEED + TRIED):
        case = make_live_case(seed)
        node_filter = comparing.make_sieve(case)
        if not is_decided(case, bool(node_filter.feasible)):
            continue
        if node_filter.feasible:
            fitting.append(case)
        else:
            causes = set(total_capacity(node_filter))
            (others if causes <= covered else telling).append(case)
            covered |= causes
    return fitting[:FITTING] + (telling + others)[:UNFITTING]


def make_live_case(seed: int) -> JSON:
    """A case with nodes of its own, and nothing that needs more than an API server."""
    case: JSON = json.loads(json.dumps(make_case(Random(seed))).replace("node-", f"node-{seed}-"))
    for pod in (case["pod"], *case["pods"]):
        pod["spec"].pop("overhead", None)
        pod["spec"]["automountServiceAccountToken"] = False
    for pod in case["pods"]:  # what they say of their own labels is in their selectors, where the server puts it
        for term in pod["spec"].get("affinity", {}).get("podAntiAffinity", {}).get(REQUIRED, ()):
            term.pop("matchLabelKeys", None)
            term.pop("mismatchLabelKeys", None)
    return case


def is_decided(case: JSON, fits: bool) -> bool:
    """Whether the decision is visible: not for a pod with a node, nor for one whose volumes must be bound first.

    The scheduler names the node if it provisions volumes, but not if it binds existing ones.
    """
    spec = case["pod"]["spec"]
    if "nodeName" in spec:
        return False
    mine = {volume["persistentVolumeClaim"]["claimName"] for volume in spec.get("volumes", ())}
    claims = [claim for claim in case["claims"] if claim["metadata"]["name"] in mine]
    waiting = [claim for claim in claims if "volumeName" not in claim["spec"]]
    chosen = any("annotations" in claim["metadata"] for claim in waiting)
    free = any(volume["status"]["phase"] == "Available" for volume in case["volumes"])
    return not chosen and not (fits and waiting and free)


def read_decision(admin: Client, pod: JSON) -> tuple[str | None, str | None]:
    """The node that the scheduler chose for a pod, or why there is none; neither before it has decided."""
    now = admin.get(path_of(pod))
    node = now["spec"].get("nodeName") or next(clusters.find_chosen(admin, pod), None)
    conditions = [each for each in now["status"].get("conditions", ()) if each.get("reason") == "Unschedulable"]
    return node, conditions[0]["message"] if conditions else None


def agrees(message: str, node_filter: NodeFilter) -> bool:
    """Whether the scheduler's sentence is what our reasons come to."""
    count, counts = count_reasons(message)
    if count != len(node_filter.table):
        return False
    ours = total_capacity(node_filter)
    if Cause.CLAIM in ours or NARROWED in message:
        return counts is None or NARROWED in message
    if counts is None:
        return False
    # Two messages of the scheduler correspond to one cause, and a node can have both.
    volumes = counts.pop(Cause.VOLUME, 0) > 0, ours.pop(Cause.VOLUME, 0) > 0
    return counts == ours and volumes[0] == volumes[1]


def count_reasons(message: str) -> tuple[int, Counter[str] | None]:
    """The number of nodes, and of nodes per cause; None if the scheduler checked no node."""
    matched = re.match(r"0/(\d+) nodes are available: (.*?)\.( |$)", message)
    assert matched, message
    counts: Counter[str] = Counter()
    for part in matched[2].split(", "):
        counted = re.fullmatch(r"(\d+) (.+)", part)
        if counted is None:
            return int(matched[1]), None
        if NARROWED not in counted[2]:
            counts[comparing.name_words(counted[2])] += int(counted[1])
    return int(matched[1]), counts


def total_capacity(node_filter: NodeFilter) -> Counter[str]:
    """On how many nodes each of our causes is the first."""
    return Counter(cause for node in node_filter.table.nodes for cause in find_first(node_filter, node))


def find_first(node_filter: NodeFilter, node: Node) -> list[str]:
    """The cause for which the scheduler would give up a node. Of resources it tells all."""
    reasons = list(evaluation.find_reasons(node_filter, node))
    if any(reason.cause is Cause.CLAIM for reason in reasons):
        return [Cause.CLAIM]
    for group in ORDER:
        if matching := [reason for reason in reasons if reason.cause in group]:
            if group == (Cause.AMOUNT,):
                return [f"{Cause.AMOUNT} {reason.resource}" for reason in matching]
            return [str(matching[0].cause)]
    return []

"""The running scheduler places pods on nodes that we consider feasible, and reports the same reasons otherwise."""

import json
import re
import time
from collections import Counter
from collections.abc import Iterator
from functools import cache
from random import Random
from typing import Any

import pytest

from fairlead.model.nodes import Node
from fairlead.scheduling import evaluation
from fairlead.scheduling.filters import NodeFilter
from fairlead.scheduling.reasons import Cause
from tests.cluster import control_planes
from tests.cluster.clients import Client, path_of
from tests.cluster.filtering import clusters, comparing
from tests.cluster.filtering.affinities import REQUIRED
from tests.cluster.filtering.cases import make_case

JSON = dict[str, Any]

FEASIBLE_CASES, INFEASIBLE_CASES = 30, 30  # the number of cases per kind
FIRST_SEED, SEEDS = 1_000_000, 600
SYNC_SECONDS = 0.2  # until the scheduler has seen the objects that were created before the pod
DECISION_SECONDS = 15.0
# The filter plugins in the order in which they run. The scheduler reports the first failure per node.
ORDER: list[tuple[Cause, ...]] = [
    *[(Cause.CORDONED,), (Cause.NODE_NAME,), (Cause.TAINT,), (Cause.LABELS,), (Cause.PORTS,), (Cause.AMOUNT,)],
    *[(Cause.IN_USE,), (Cause.VOLUME,), (Cause.ZONE,)],
    *[(Cause.SPREAD_LABEL, Cause.SPREAD), (Cause.POD_AFFINITY, Cause.POD_ANTI_AFFINITY, Cause.REPELLED)],
]
NOT_CHECKED = "node(s) didn't satisfy plugin"  # message about nodes that were skipped because the pod names other nodes


@pytest.fixture(scope="module")
def admin() -> Iterator[Client]:
    """A client for an API server that has a scheduler, but no controllers that change objects."""
    with control_planes.running() as plane, plane.client() as admin:
        plane.stop_manager()
        clusters.prepare(admin)
        yield admin


@pytest.fixture
def clean_cluster(admin: Client) -> Iterator[None]:
    """Delete all of a case's objects when it is done."""
    yield
    clusters.clear(admin)


@pytest.mark.parametrize("number", range(FEASIBLE_CASES + INFEASIBLE_CASES))
@pytest.mark.usefixtures("clean_cluster")
def test_scheduler_agrees_with_the_node_filter(admin: Client, number: int) -> None:
    case = choose_cases()[number]
    clusters.set_up(admin, case)
    time.sleep(SYNC_SECONDS)
    pod = admin.create(case["pod"])
    node_filter = comparing.make_node_filter(clusters.read_back(admin, pod))
    feasible = {node_filter.table.names[index] for index in node_filter.feasible}
    deadline, node, message = time.monotonic() + DECISION_SECONDS, None, None
    while time.monotonic() < deadline:
        node, message = read_decision(admin, pod)
        if node is not None or (message is not None and not feasible and agrees(message, node_filter)):
            break
        time.sleep(0.02)
    if feasible:
        assert node in feasible, message
    else:
        assert node is None
        assert message is not None
        assert agrees(message, node_filter), f"{message}\nour causes: {count_first_causes(node_filter)}"


@cache
def choose_cases() -> list[JSON]:
    """Choose feasible and infeasible cases. Infeasible cases with a new cause come first."""
    feasible, with_new_cause, other_cases = list[JSON](), list[JSON](), list[JSON]()
    seen_causes: set[str] = set()
    for seed in range(FIRST_SEED, FIRST_SEED + SEEDS):
        case = make_live_case(seed)
        node_filter = comparing.make_node_filter(case)
        if not is_decided(case, bool(node_filter.feasible)):
            continue
        if node_filter.feasible:
            feasible.append(case)
        else:
            causes = set(count_first_causes(node_filter))
            (other_cases if causes <= seen_causes else with_new_cause).append(case)
            seen_causes |= causes
    return feasible[:FEASIBLE_CASES] + (with_new_cause + other_cases)[:INFEASIBLE_CASES]


def make_live_case(seed: int) -> JSON:
    """A case with unique node names, without features that need more than an API server."""
    case: JSON = json.loads(json.dumps(make_case(Random(seed))).replace("node-", f"node-{seed}-"))
    for pod in (case["pod"], *case["pods"]):
        pod["spec"].pop("overhead", None)
        pod["spec"]["automountServiceAccountToken"] = False
    for pod in case["pods"]:  # the API server has already merged these keys into the selectors
        for term in pod["spec"].get("affinity", {}).get("podAntiAffinity", {}).get(REQUIRED, ()):
            term.pop("matchLabelKeys", None)
            term.pop("mismatchLabelKeys", None)
    return case


def is_decided(case: JSON, fits: bool) -> bool:
    """Whether the decision is visible: this excludes a pod with a node name, and one whose volumes must be bound first.

    The scheduler names the node if it provisions volumes, but not if it binds existing ones.
    """
    spec = case["pod"]["spec"]
    if "nodeName" in spec:
        return False
    claim_names = {volume["persistentVolumeClaim"]["claimName"] for volume in spec.get("volumes", ())}
    claims = [claim for claim in case["claims"] if claim["metadata"]["name"] in claim_names]
    unbound = [claim for claim in claims if "volumeName" not in claim["spec"]]
    has_selected_node = any("annotations" in claim["metadata"] for claim in unbound)
    has_free_volumes = any(volume["status"]["phase"] == "Available" for volume in case["volumes"])
    return not has_selected_node and not (fits and unbound and has_free_volumes)


def read_decision(admin: Client, pod: JSON) -> tuple[str | None, str | None]:
    """The node that the scheduler chose for a pod, or its message if there is none; None before the decision."""
    current = admin.get(path_of(pod))
    node = current["spec"].get("nodeName") or next(clusters.find_selected_nodes(admin, pod), None)
    conditions = [
        condition for condition in current["status"].get("conditions", ()) if condition.get("reason") == "Unschedulable"
    ]
    return node, conditions[0]["message"] if conditions else None


def agrees(message: str, node_filter: NodeFilter) -> bool:
    """Whether the scheduler's message matches our reasons."""
    count, counts = count_reasons(message)
    if count != len(node_filter.table):
        return False
    our_counts = count_first_causes(node_filter)
    if Cause.CLAIM in our_counts or NOT_CHECKED in message:
        return counts is None or NOT_CHECKED in message
    if counts is None:
        return False
    # Two of the scheduler's messages correspond to one cause, and a node can have both.
    volumes = counts.pop(Cause.VOLUME, 0) > 0, our_counts.pop(Cause.VOLUME, 0) > 0
    return counts == our_counts and volumes[0] == volumes[1]


def count_reasons(message: str) -> tuple[int, Counter[str] | None]:
    """The total number of nodes, and the number per cause; None if the scheduler checked no nodes."""
    match = re.match(r"0/(\d+) nodes are available: (.*?)\.( |$)", message)
    assert match, message
    counts: Counter[str] = Counter()
    for part in match[2].split(", "):
        match_part = re.fullmatch(r"(\d+) (.+)", part)
        if match_part is None:
            return int(match[1]), None
        if NOT_CHECKED not in match_part[2]:
            counts[comparing.cause_of_message(match_part[2])] += int(match_part[1])
    return int(match[1]), counts


def count_first_causes(node_filter: NodeFilter) -> Counter[str]:
    """The number of nodes by the first of our causes."""
    return Counter(cause for node in node_filter.table.nodes for cause in find_first_causes(node_filter, node))


def find_first_causes(node_filter: NodeFilter, node: Node) -> list[str]:
    """The cause that the scheduler reports for a node. For resources, it reports all causes."""
    reasons = list(evaluation.find_reasons(node_filter, node))
    if any(reason.cause is Cause.CLAIM for reason in reasons):
        return [Cause.CLAIM]
    for group in ORDER:
        if matching := [reason for reason in reasons if reason.cause in group]:
            if group == (Cause.AMOUNT,):
                return [f"{Cause.AMOUNT} {reason.resource}" for reason in matching]
            return [str(matching[0].cause)]
    return []

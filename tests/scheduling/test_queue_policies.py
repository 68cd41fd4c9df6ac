"""Queue policies: the smallest limit of a project's scopes, and the nearest weight."""

from typing import Any

import pytest

from fairlead.model.assets import QueuePolicy
from fairlead.model.scopes import ScopeTree
from fairlead.scheduling.fair_shares import FairQueue, QueueEntry
from fairlead.scheduling.queue_policies import QueuePolicies

MAIN, VISION, FOREST, LAKE = "cluster/main", "department/vision", "project/forest", "project/lake"
TREE = ScopeTree({MAIN: "platform", VISION: MAIN, FOREST: VISION, LAKE: MAIN})


def make_policies(**by_kind: dict[str, Any]) -> QueuePolicies:
    """The queue policies of the platform, the cluster, the department and its project."""
    scopes = {"platform": "platform", "cluster": MAIN, "department": VISION, "project": FOREST}
    return QueuePolicies.of(
        TREE, [(scopes[kind], QueuePolicy.model_validate(policy)) for kind, policy in by_kind.items()]
    )


def limit_of(policies: QueuePolicies, scope: str) -> tuple[int, str | None] | None:
    """The limit of a project and the scope that sets it."""
    limit = policies.limit_of(scope)
    return None if limit is None else (limit.value, limit.source.scope)


def test_without_policies_projects_have_weight_one_and_no_limit() -> None:
    for policies in (QueuePolicies(), make_policies(department={})):
        assert policies.weight_of(FOREST) == 1
        assert limit_of(policies, FOREST) is None


@pytest.mark.parametrize(
    ("by_kind", "expected"),
    [
        ({"platform": 100}, (100, "platform")),
        ({"platform": 100, "project": 500}, (100, "platform")),
        ({"platform": 100, "project": 50}, (50, FOREST)),
        ({"cluster": 70, "department": 60, "project": 80}, (60, VISION)),
        ({"cluster": 70, "department": 70}, (70, MAIN)),
    ],
)
def test_the_smallest_limit_on_the_path_applies(by_kind: dict[str, int], expected: tuple[int, str]) -> None:
    policies = make_policies(**{kind: {"max_waiting_runs": limit} for kind, limit in by_kind.items()})
    assert limit_of(policies, FOREST) == expected


def test_a_limit_applies_only_inside_its_scope() -> None:
    policies = make_policies(department={"max_waiting_runs": 5})
    assert limit_of(policies, FOREST) == (5, VISION)
    assert limit_of(policies, LAKE) is None


@pytest.mark.parametrize(
    ("by_kind", "weight"),
    [
        ({"platform": 3}, 3),
        ({"platform": 3, "cluster": 0.5}, 0.5),
        ({"cluster": 0.5, "department": 4}, 4),
        ({"department": 4, "project": 2}, 2),
    ],
)
def test_the_weight_of_the_nearest_scope_applies(by_kind: dict[str, float], weight: float) -> None:
    policies = make_policies(**{kind: {"weight": value} for kind, value in by_kind.items()})
    assert policies.weight_of(FOREST) == weight


def test_a_limit_and_a_weight_can_come_from_different_scopes() -> None:
    policies = make_policies(platform={"max_waiting_runs": 10, "weight": 2}, project={"max_waiting_runs": 20})
    assert (limit_of(policies, FOREST), policies.weight_of(FOREST)) == ((10, "platform"), 2)


@pytest.mark.parametrize(("weight", "expected"), [(1, 10), (2, 13), (3, 15), (0.5, 7)])
def test_projects_get_what_their_weights_allow(weight: float, expected: int) -> None:
    queue = FairQueue(lambda _scope: {"cpu": 100}, make_policies(department={"weight": weight}).weight_of)
    for number in range(20):
        for scope in (FOREST, LAKE):
            queue.add(QueueEntry(f"{number:02}", scope, f"{scope}{number}"))
    started = []
    for _ in range(20):
        entry = queue.next()
        assert entry is not None
        started.append(entry.scope)
        queue.count_admitted(entry.scope, {"cpu": 1})
    assert started.count(FOREST) == expected

"""The node filter agrees with kube-scheduler on random clusters: the feasible nodes, and all reasons for the others.

FAIRLEAD_EXAMPLES=1000 runs ten times as many cases. A case that disagrees is minimized and shown. Store it in
filtering/kept, next to the cases for earlier or possible mistakes.
"""

import json
import os
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import pytest

from fairlead.scheduling.reasons import Cause
from tests.cluster.filtering import comparing, shrinking
from tests.cluster.filtering.cases import make_case

CASES = 40 * max(100, int(os.environ.get("FAIRLEAD_EXAMPLES", "100")))
BATCH_SIZE, CHECKED_CASES, SHOWN_CASES = 1000, 500, 3
RECORDED = sorted((Path(__file__).parent / "filtering" / "kept").glob("*.json"))
# GPU sharing is done by other schedulers.
CAUSES = [*(str(cause) for cause in Cause if cause not in (Cause.AMOUNT, Cause.SHARE))]
RESOURCES = ["cpu", "memory", "ephemeral-storage", "pods", "nvidia.com/gpu", "nvidia.com/mig-1g.5gb", "hugepages-2Mi"]
MIN_SHARE = 0.01  # of all nodes


@dataclass
class Outcome:
    """The combined results of all cases."""

    nodes: int = 0
    feasible: int = 0
    causes: Counter[str] = field(default_factory=Counter)
    disagreeing: list[dict[str, Any]] = field(default_factory=list)


@pytest.fixture(scope="module")
def outcome() -> Outcome:
    """The results of all cases, evaluated once."""
    outcome = Outcome()
    for start in range(0, CASES, BATCH_SIZE):
        cases = [make_case(Random(seed)) for seed in range(start, min(start + BATCH_SIZE, CASES))]
        for case, result in zip(cases, comparing.evaluate_all(cases), strict=True):
            verdict = comparing.read_scheduler_verdict(result)
            outcome.nodes += len(verdict.nodes)
            outcome.feasible += len(verdict.feasible)
            outcome.causes.update(cause for causes in verdict.nodes.values() for cause in causes)
            if comparing.find_disagreements(case, result):
                outcome.disagreeing.append(case)
    return outcome


def test_node_filter_agrees_with_the_scheduler_on_every_node(outcome: Outcome) -> None:
    if outcome.disagreeing:
        pytest.fail(f"{len(outcome.disagreeing)} of {CASES} cases: {explain(outcome.disagreeing[:SHOWN_CASES])}")


@pytest.mark.parametrize("cause", [*CAUSES, *(f"{Cause.AMOUNT} {resource}" for resource in RESOURCES)])
def test_random_cases_cover_every_cause(outcome: Outcome, cause: str) -> None:
    assert outcome.causes[cause] > MIN_SHARE * outcome.nodes


def test_random_cases_have_feasible_and_infeasible_nodes(outcome: Outcome) -> None:
    assert 0.1 < outcome.feasible / outcome.nodes < 0.9


def test_api_server_accepts_the_random_cases() -> None:
    cases = [make_case(Random(seed)) for seed in range(CHECKED_CASES)]
    for result in comparing.evaluate_all(cases, "--check"):
        assert not result.get("invalid")
        assert not result["error"]


@pytest.mark.parametrize("file", RECORDED, ids=lambda file: file.stem)
def test_recorded_cases_agree(file: Path) -> None:
    case = json.loads(file.read_text("utf-8"))
    (result,) = comparing.evaluate_all([case])
    assert not comparing.find_disagreements(case, result), shrinking.show(case)


def explain(cases: list[dict[str, Any]]) -> str:
    """Minimize cases, and format them with their disagreements."""
    lines = []
    with comparing.filtering("--check") as scheduler:
        for case in cases:
            small = shrinking.shrink(case, scheduler)
            result = scheduler.evaluate(small)
            lines += ["", *comparing.find_disagreements(small, result), shrinking.show(small), json.dumps(result)]
    return "\n".join(lines)

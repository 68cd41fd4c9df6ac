"""Of random clusters we say what kube-scheduler's own filters say: which nodes take a pod, and every reason why not.

More cases: FAIRLEAD_EXAMPLES=1000 is ten times as many. One that disagrees is shown as small as it gets: keep it in
filtering/kept, beside those that tell mistakes which were made, or could be, from what the scheduler does.
"""

import json
import os
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import pytest

from fairlead.core.fitting.reasons import Cause
from tests.cluster.filtering import comparing, shrinking
from tests.cluster.filtering.cases import make_case

CASES = 40 * max(100, int(os.environ.get("FAIRLEAD_EXAMPLES", "100")))
AT_ONCE, CHECKED, SHOWN = 1000, 500, 3
KEPT = sorted((Path(__file__).parent / "filtering" / "kept").glob("*.json"))
# GPU sharing is done by other schedulers.
CAUSES = [*(str(cause) for cause in Cause if cause not in (Cause.AMOUNT, Cause.SHARE))]
RESOURCES = ["cpu", "memory", "ephemeral-storage", "pods", "nvidia.com/gpu", "nvidia.com/mig-1g.5gb", "hugepages-2Mi"]
OFTEN = 0.01  # of all nodes


@dataclass
class Outcome:
    """The combined results of all cases."""

    nodes: int = 0
    feasible: int = 0
    causes: Counter[str] = field(default_factory=Counter)
    disagreeing: list[dict[str, Any]] = field(default_factory=list)


@pytest.fixture(scope="module")
def outcome() -> Outcome:
    """All cases, tried once."""
    outcome = Outcome()
    for start in range(0, CASES, AT_ONCE):
        cases = [make_case(Random(seed)) for seed in range(start, min(start + AT_ONCE, CASES))]
        for case, answer in zip(cases, comparing.ask_all(cases), strict=True):
            theirs = comparing.find_theirs(answer)
            outcome.nodes += len(theirs.nodes)
            outcome.feasible += len(theirs.feasible)
            outcome.causes.update(cause for causes in theirs.nodes.values() for cause in causes)
            if comparing.find_disagreements(case, answer):
                outcome.disagreeing.append(case)
    return outcome


def test_node_filter_agrees_with_the_scheduler_on_every_node(outcome: Outcome) -> None:
    if outcome.disagreeing:
        pytest.fail(f"{len(outcome.disagreeing)} of {CASES} cases: {explain(outcome.disagreeing[:SHOWN])}")


@pytest.mark.parametrize("cause", [*CAUSES, *(f"{Cause.AMOUNT} {resource}" for resource in RESOURCES)])
def test_random_cases_cover_every_cause(outcome: Outcome, cause: str) -> None:
    assert outcome.causes[cause] > OFTEN * outcome.nodes


def test_random_cases_have_feasible_and_infeasible_nodes(outcome: Outcome) -> None:
    assert 0.1 < outcome.feasible / outcome.nodes < 0.9


def test_api_server_accepts_the_random_cases() -> None:
    cases = [make_case(Random(seed)) for seed in range(CHECKED)]
    for answer in comparing.ask_all(cases, "--check"):
        assert not answer.get("invalid")
        assert not answer["error"]


@pytest.mark.parametrize("file", KEPT, ids=lambda file: file.stem)
def test_recorded_cases_agree(file: Path) -> None:
    case = json.loads(file.read_text("utf-8"))
    (answer,) = comparing.ask_all([case])
    assert not comparing.find_disagreements(case, answer), shrinking.show(case)


def explain(cases: list[dict[str, Any]]) -> str:
    """Cases as small as they get, each with what we disagree in."""
    lines = []
    with comparing.filtering("--check") as scheduler:
        for case in cases:
            small = shrinking.shrink(case, scheduler)
            answer = scheduler.ask(small)
            lines += ["", *comparing.find_disagreements(small, answer), shrinking.show(small), json.dumps(answer)]
    return "\n".join(lines)

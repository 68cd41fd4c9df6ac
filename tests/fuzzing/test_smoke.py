"""A short run of `make fuzz`. FAIRLEAD_SEED sets a different seed."""

import os
import threading

import pytest

from tests.fuzzing.grammars import is_json
from tests.fuzzing.operations import fuzz_operations, open_fuzzed_server
from tests.fuzzing.requests import check_violations, fuzz_planning, fuzz_previews, open_fuzzed_site
from tests.fuzzing.rounds import Hang, fuzz_for, time_limit

SEED = int(os.environ.get("FAIRLEAD_SEED", "7"))


def test_mutated_requests_are_planned_or_rejected() -> None:
    assert fuzz_planning(SEED, 30) == 30


def test_previews_of_mutated_requests_are_answered() -> None:
    with open_fuzzed_site() as site:
        assert fuzz_previews(site, SEED, 30) == 30


@pytest.mark.slow
def test_a_real_server_answers_fuzzed_requests() -> None:
    with open_fuzzed_server() as server:
        assert fuzz_operations(server, SEED, operations=4, examples=2) > 4


def test_a_failed_round_prints_how_to_reproduce_it(capsys: pytest.CaptureFixture[str]) -> None:
    def fuzz(seed: int) -> int:
        assert seed != 3, "three"
        return 10

    tally = fuzz_for("planning", 0, 3, fuzz)
    assert (tally.rounds, tally.request_count, tally.failed_seeds) == (1, 0, [3])
    assert 'make fuzz ARGS="--only planning --seed 3 --seconds 0"' in capsys.readouterr().out
    assert fuzz_for("planning", 0, 4, fuzz).failed_seeds == []


def test_hanging_requests_are_aborted() -> None:
    with pytest.raises(Hang, match=r"takes longer than 0\.05 s: a request"), time_limit(0.05, "a request"):
        threading.Event().wait(60)


@pytest.mark.parametrize("missing", ["path", "rule", "message", "hint"])
def test_incomplete_violations_are_detected(missing: str) -> None:
    complete = {"path": "resources.cpu", "rule": "max", "message": "requests 9", "hint": "request 8"}
    check_violations([complete])
    with pytest.raises(AssertionError):
        check_violations([complete | {missing: ""}])


@pytest.mark.parametrize(
    ("data", "expected"), [({"a": [1, "b", None]}, True), ({1: 2}, False), ((1,), False), (float("nan"), False)]
)
def test_is_json_detects_values_that_cannot_be_sent(data: object, expected: bool) -> None:
    assert is_json(data) is expected

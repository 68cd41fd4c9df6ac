"""A few seconds of `make fuzz`, so that it works when it is needed. FAIRLEAD_SEED chooses another seed."""

import os
import threading

import pytest

from tests.fuzzing.grammars import is_json
from tests.fuzzing.operations import fuzz_operations, open_fuzzed_server
from tests.fuzzing.requests import check_violations, fuzz_planning, fuzz_previews, open_fuzzed_site
from tests.fuzzing.rounds import Hang, fuzz_for, waiting

SEED = int(os.environ.get("FAIRLEAD_SEED", "7"))


def test_requests_that_are_almost_right_are_planned_or_refused_in_words() -> None:
    assert fuzz_planning(SEED, 30) == 30


def test_previews_of_them_are_answered() -> None:
    with open_fuzzed_site() as site:
        assert fuzz_previews(site, SEED, 30) == 30


@pytest.mark.slow
def test_a_real_server_answers_whatever_is_sent_to_it() -> None:
    with open_fuzzed_server() as server:
        assert fuzz_operations(server, SEED, operations=4, examples=2) > 4


def test_a_round_that_finds_something_says_how_to_find_it_again(capsys: pytest.CaptureFixture[str]) -> None:
    def fuzz(seed: int) -> int:
        assert seed != 3, "three"
        return 10

    tally = fuzz_for("planning", 0, 3, fuzz)
    assert (tally.rounds, tally.tried, tally.found) == (1, 0, [3])
    assert 'make fuzz ARGS="--only planning --seed 3 --seconds 0"' in capsys.readouterr().out
    assert fuzz_for("planning", 0, 4, fuzz).found == []


def test_what_hangs_is_given_up() -> None:
    with pytest.raises(Hang, match=r"takes longer than 0\.05 s: a request"), waiting(0.05, "a request"):
        threading.Event().wait(60)


@pytest.mark.parametrize("missing", ["path", "rule", "message", "hint"])
def test_a_violation_that_says_too_little_is_found(missing: str) -> None:
    whole = {"path": "resources.cpu", "rule": "max", "message": "asks for 9", "hint": "ask for 8"}
    check_violations([whole])
    with pytest.raises(AssertionError):
        check_violations([whole | {missing: ""}])


@pytest.mark.parametrize(
    ("data", "sent"), [({"a": [1, "b", None]}, True), ({1: 2}, False), ((1,), False), (float("nan"), False)]
)
def test_only_json_is_sent(data: object, sent: bool) -> None:
    assert is_json(data) is sent

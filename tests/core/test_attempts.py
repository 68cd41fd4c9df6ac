"""Whether another try of a run is due, with how much memory and after which pause; and how tries are called."""

import json
from datetime import timedelta
from typing import Any

import pytest

from fairlead.core import attempts, explanations, quotas
from fairlead.core.attempts import (
    AttemptHistory,
    NextAttempt,
    NoRetry,
    RetryPolicy,
    attempt_of,
    decide_next,
    execution_of,
    run_id_of,
)
from fairlead.model.records import PlanRecord, RunRecord
from tests.contracts.samples import NOW, make
from tests.making import make_compute_resource, make_policy, make_request, plan

GI = 2**30
RUN = "0198c0de" * 4


def keep(asked: dict[str, Any], *objects: Any) -> PlanRecord:
    """The retry terms of a run."""
    planned = plan(asked, *objects, run_id=RUN)
    assert not planned.violations, planned.violations
    data = json.loads(json.dumps(explanations.to_data(planned)))
    return PlanRecord(id=RUN, request=make_request(**asked).to_data(), plan=data)


def terms(asked: dict[str, Any], *objects: Any) -> RetryPolicy:
    """On which terms it is tried again."""
    return RetryPolicy.of(keep(asked, *objects))


def make_run(attempt: int = 1, mem: int = 0, **fields: Any) -> RunRecord:
    """A run at a try, with the memory that it holds."""
    return make(RunRecord, RUN, attempt=attempt, mem_bytes=mem, server_id="s1", state="running", **fields)


def follow(asked: dict[str, Any], *reasons: str, objects: tuple[Any, ...] = ()) -> list[tuple[int, int]]:
    """The memory and the pause of each further try, after failures for these reasons."""
    said, held, found = terms(asked, *objects), list[int](), list[tuple[int, int]]()
    mem = quotas.count_resources(plan(asked, *objects).settings).mem_bytes
    for reason in reasons:
        after = decide_next(make_run(len(held) + 1, mem), reason, AttemptHistory(said, held))
        held.append(mem)
        if isinstance(after, NoRetry):
            return found
        found.append((after.mem_bytes, after.pause_seconds))
        mem = after.mem_bytes
    return found


# How they are called


@pytest.mark.parametrize("attempt", [1, 2, 9, 10, 41])
def test_a_try_is_known_by_its_run_and_number(attempt: int) -> None:
    execution = execution_of(RUN, attempt)
    assert (run_id_of(execution), attempt_of(execution)) == (RUN, attempt)
    assert (execution == RUN) == (attempt == 1)


@pytest.mark.parametrize("odd", ["r1", "run-1", "r-lost", "a-0", "a-01", "x-2y", ""])
def test_an_id_that_only_looks_like_one_of_a_later_try_is_that_of_a_first_one(odd: str) -> None:
    assert (run_id_of(odd), attempt_of(odd)) == (odd, 1)


def test_a_try_is_told_as_such_once_there_are_several() -> None:
    assert attempts.describe_execution(RUN) == f"run {RUN}"
    assert attempts.describe_execution(f"{RUN}-3") == f"attempt 3 of run {RUN}"


@pytest.mark.parametrize(("attempt", "server_id", "last"), [(1, None, 1), (1, "s1", 1), (3, "s1", 3), (3, None, 2)])
def test_the_last_try_is_the_one_that_was_given_a_place(attempt: int, server_id: str | None, last: int) -> None:
    assert attempts.last_started_attempt(make(RunRecord, "r1", attempt=attempt, server_id=server_id)) == last


# Retries


def test_nothing_is_tried_again_that_nobody_asked_for() -> None:
    for reason in ("ExitCode", "OOMKilled", "NodeLost", "StartFailed"):
        assert decide_next(make_run(), reason, AttemptHistory(terms({}))) == NoRetry("")


def test_a_run_is_tried_as_often_as_was_asked_for() -> None:
    assert follow({"retries": 2}, *["NodeLost"] * 9) == [(0, 0), (0, 0)]


def test_pauses_after_what_a_program_did_grow_and_end_growing() -> None:
    pauses = [pause for _, pause in follow({"retries": 8}, *["ExitCode"] * 8)]
    assert pauses == [10, 20, 40, 80, 160, 300, 300, 300]


@pytest.mark.parametrize("reason", ["OOMKilled", "Evicted", "NodeLost", "PodRemoved", "SupervisorLost"])
def test_what_was_lost_begins_at_once(reason: str) -> None:
    after = decide_next(make_run(), reason, AttemptHistory(terms({"retries": 1})))
    assert after == NextAttempt(0, 0, "attempt 2 of 2 starts now")


@pytest.mark.parametrize(
    "reason", ["StartFailed", "DeadlineExceeded", "Terminated", "Lost", "SecretMissing", "Failed", "Idle"]
)
def test_other_failures_would_only_come_again(reason: str) -> None:
    after = decide_next(make_run(), reason, AttemptHistory(terms({"retries": 3})))
    assert after == NoRetry(f"not retried after {reason}")


def test_a_function_says_after_which_failures_it_is_tried_again() -> None:
    function = {"name": "train", "kind": "container", "image": "a.example/b:1", "retry_on": ["NodeLost"]}
    said = terms({"retries": 1, "function": function})
    assert isinstance(decide_next(make_run(), "NodeLost", AttemptHistory(said)), NextAttempt)
    after = decide_next(make_run(), "ExitCode", AttemptHistory(said))
    assert after == NoRetry("not retried after ExitCode (not in retry_on)")


def test_the_last_of_several_says_that_it_was() -> None:
    after = decide_next(make_run(3), "ExitCode", AttemptHistory(terms({"retries": 2}), [0, 0]))
    assert after == NoRetry("that was attempt 3 of 3")


def test_the_next_one_says_when_it_begins() -> None:
    after = decide_next(make_run(2), "ExitCode", AttemptHistory(terms({"retries": 2}), [0]))
    assert after == NextAttempt(0, 20, "attempt 3 of 3 starts in 20 s")


# Memory


def test_memory_grows_up_to_the_most_and_such_tries_are_no_retries() -> None:
    asked = {"resources": {"mem": "8Gi"}, "on_oom": {"grow": 1.5, "max": "20Gi"}}
    assert follow(asked, *["OOMKilled"] * 9) == [(12 * GI, 0), (18 * GI, 0), (20 * GI, 0)]


def test_once_it_cannot_grow_running_out_of_memory_is_a_failure_as_any_other() -> None:
    asked = {"resources": {"mem": "8Gi"}, "on_oom": {"grow": 2, "max": "16Gi"}, "retries": 1}
    assert follow(asked, *["OOMKilled"] * 9) == [(16 * GI, 0), (16 * GI, 0)]


def test_retries_between_keep_the_memory_that_was_reached_and_their_own_number() -> None:
    asked = {"resources": {"mem": "8Gi"}, "on_oom": {"grow": 2}, "retries": 2}
    reasons = ["ExitCode", "OOMKilled", "ExitCode", "OOMKilled", "ExitCode", "OOMKilled"]
    found = follow(asked, *reasons)
    assert found == [(8 * GI, 10), (16 * GI, 0), (16 * GI, 20), (32 * GI, 0)]


def test_request_and_limit_grow_alike_and_the_most_is_of_the_limit() -> None:
    said = terms({"resources": {"mem": {"requests": "4Gi", "limits": "8Gi"}}, "on_oom": {"grow": 1.5, "max": "10Gi"}})
    assert said.grow_from(4 * GI) == 5 * GI
    assert said.limit_with(5 * GI) == 10 * GI
    assert said.grow_from(5 * GI) is None
    told = decide_next(make_run(mem=4 * GI), "OOMKilled", AttemptHistory(said))
    assert told == NextAttempt(5 * GI, 0, "attempt 2 starts now with 10 GiB of memory")


def test_without_a_limit_the_request_grows() -> None:
    said = terms(
        {"resources": {"mem": {"requests": "4Gi", "limits": "unlimited"}}, "on_oom": {"grow": 2, "max": "9Gi"}}
    )
    assert (said.limit, said.grow_from(4 * GI), said.grow_from(8 * GI)) == (None, 8 * GI, 9 * GI)


def test_what_memory_grows_to_is_rounded_up_to_a_mebibyte() -> None:
    said = terms({"resources": {"mem": "1Gi"}, "on_oom": {"grow": 1.3}})
    assert said.grow_from(GI) == 1332 * 2**20


def test_all_pods_of_a_run_grow() -> None:
    asked = {"resources": {"mem": "8Gi"}, "on_oom": {"grow": 2}, "replicas": 3}
    assert follow(asked, "OOMKilled", "OOMKilled") == [(48 * GI, 0), (96 * GI, 0)]


def test_what_has_no_memory_of_its_own_cannot_grow() -> None:
    asked = {"on_oom": {"grow": 2}}
    assert follow(asked, "OOMKilled") == []
    assert follow({**asked, "retries": 1}, *["OOMKilled"] * 3) == [(0, 0)]


def test_what_a_compute_resource_owns_does_not_grow() -> None:
    big = make_compute_resource("big", resources={"mem": "8Gi"})
    asked = {"profile": "big", "on_oom": {"grow": 2}, "retries": 1}
    assert follow(asked, "OOMKilled", "OOMKilled", objects=(big,)) == [(8 * GI, 0)]


def test_memory_grows_no_further_than_rules_allow() -> None:
    bounded = make_policy(rules={"resources.mem.limits": {"max": "12Gi"}})
    asked = {"resources": {"mem": {"requests": "4Gi", "limits": "8Gi"}}, "on_oom": {"grow": 2, "max": "64Gi"}}
    assert follow(asked, *["OOMKilled"] * 3, objects=(bounded,)) == [(6 * GI, 0)]


def test_memory_grows_only_so_often_however_little_that_is() -> None:
    asked = {"resources": {"mem": "1Gi"}, "on_oom": {"grow": "1.0000001"}}
    found = follow(asked, *["OOMKilled"] * 99)
    assert len(found) == attempts.MAX_GROWTHS
    assert found[-1] == (GI + attempts.MAX_GROWTHS * 2**20, 0)


def test_memory_never_grows_beyond_what_can_be_said() -> None:
    asked = {"resources": {"mem": {"requests": "1Ei", "limits": "7Ei"}}, "on_oom": {"grow": 10}, "replicas": 4}
    said, held = terms(asked), quotas.count_resources(plan(asked).settings).mem_bytes
    after = decide_next(make_run(mem=held), "OOMKilled", AttemptHistory(said))
    assert isinstance(after, NextAttempt)
    assert after.mem_bytes < 2**63
    assert (said.limit_with(after.mem_bytes // 4) or 0) < 2**63


def test_the_last_that_ran_out_of_memory_says_how_much_it_had() -> None:
    said = terms({"resources": {"mem": "8Gi"}, "on_oom": {"grow": 2, "max": "8Gi"}})
    told = decide_next(make_run(mem=8 * GI), "OOMKilled", AttemptHistory(said))
    assert told == NoRetry("its memory cannot grow beyond 8 GiB")


@pytest.mark.parametrize(("seconds", "paused"), [(-1, True), (0, False), (1, False)])
def test_a_run_is_paused_until_it_is_due(seconds: int, paused: bool) -> None:
    run = make(RunRecord, "r1", retry_at=NOW)
    assert attempts.is_paused(run, NOW + timedelta(seconds=seconds)) is paused
    assert not attempts.is_paused(make(RunRecord, "r1"), NOW)

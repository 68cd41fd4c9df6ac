"""Retries: whether another attempt is due, its memory and the pause before it; and attempt names."""

import json
from datetime import timedelta
from typing import Any

import pytest

from fairlead.lifecycle import attempts
from fairlead.lifecycle.attempts import (
    AttemptHistory,
    NextAttempt,
    NoRetry,
    RetryPolicy,
    attempt_of,
    decide_next,
    execution_of,
    run_id_of,
)
from fairlead.model import explanations
from fairlead.model.records import PlanRecord, RunRecord
from tests.contracts.samples import NOW, make
from tests.making import make_compute_resource, make_policy, make_request, plan

GI = 2**30
RUN = "0198c0de" * 4


def make_plan_record(requested: dict[str, Any], *objects: Any) -> PlanRecord:
    """The stored plan of a run."""
    planned = plan(requested, *objects, run_id=RUN)
    assert not planned.violations, planned.violations
    assert planned.demand is not None
    data = json.loads(json.dumps(explanations.to_data(planned)))
    return PlanRecord(id=RUN, request=make_request(**requested).to_data(), plan=data, demand=planned.demand)


def retry_policy_of(requested: dict[str, Any], *objects: Any) -> RetryPolicy:
    """A request's retry policy."""
    return RetryPolicy.of(make_plan_record(requested, *objects))


def make_run(attempt: int = 1, mem: int = 0, **fields: Any) -> RunRecord:
    """A run on a given attempt, with its memory."""
    return make(RunRecord, RUN, attempt=attempt, mem_bytes=mem, server_id="s1", state="running", **fields)


def run_failures(requested: dict[str, Any], *reasons: str, objects: tuple[Any, ...] = ()) -> list[tuple[int, float]]:
    """Memory of, and pause before, each attempt after the first, if attempts fail for these reasons."""
    retry_policy, memory_history, next_attempts = (
        retry_policy_of(requested, *objects),
        list[int](),
        list[tuple[int, float]](),
    )
    mem = make_plan_record(requested, *objects).demand.resources.mem_bytes
    for reason in reasons:
        decision = decide_next(
            make_run(len(memory_history) + 1, mem), reason, AttemptHistory(retry_policy, memory_history)
        )
        memory_history.append(mem)
        if isinstance(decision, NoRetry):
            return next_attempts
        next_attempts.append((decision.mem_bytes, decision.pause_seconds))
        mem = decision.mem_bytes
    return next_attempts


# Names


@pytest.mark.parametrize("attempt", [1, 2, 9, 10, 41])
def test_attempt_id_contains_run_and_number(attempt: int) -> None:
    execution = execution_of(RUN, attempt)
    assert (run_id_of(execution), attempt_of(execution)) == (RUN, attempt)
    assert (execution == RUN) == (attempt == 1)


@pytest.mark.parametrize("execution", ["r1", "run-1", "r-lost", "a-0", "a-01", "x-2y", ""])
def test_an_id_without_a_valid_attempt_suffix_is_a_first_attempt(execution: str) -> None:
    assert (run_id_of(execution), attempt_of(execution)) == (execution, 1)


def test_later_attempts_are_described_with_their_number() -> None:
    assert attempts.describe_execution(RUN) == f"run {RUN}"
    assert attempts.describe_execution(f"{RUN}-3") == f"attempt 3 of run {RUN}"


@pytest.mark.parametrize(("attempt", "server_id", "last"), [(1, None, 1), (1, "s1", 1), (3, "s1", 3), (3, None, 2)])
def test_the_last_started_attempt_is_the_one_with_a_server(attempt: int, server_id: str | None, last: int) -> None:
    assert attempts.last_started_attempt(make(RunRecord, "r1", attempt=attempt, server_id=server_id)) == last


# Retries


def test_runs_are_not_retried_by_default() -> None:
    for reason in ("ExitCode", "OOMKilled", "NodeLost", "StartFailed"):
        assert decide_next(make_run(), reason, AttemptHistory(retry_policy_of({}))) == NoRetry("")


def test_a_run_is_retried_as_often_as_requested() -> None:
    assert run_failures({"retries": 2}, *["NodeLost"] * 9) == [(0, 0), (0, 0)]


def test_pauses_after_program_failures_grow_up_to_a_maximum() -> None:
    pauses = [pause for _, pause in run_failures({"retries": 8}, *["ExitCode"] * 8)]
    assert pauses == [10, 20, 40, 80, 160, 300, 300, 300]


@pytest.mark.parametrize("reason", ["OOMKilled", "Evicted", "NodeLost", "PodRemoved", "SupervisorLost"])
def test_lost_runs_are_retried_immediately(reason: str) -> None:
    decision = decide_next(make_run(), reason, AttemptHistory(retry_policy_of({"retries": 1})))
    assert decision == NextAttempt(0, 0, "attempt 2 of 2 starts now")


@pytest.mark.parametrize(
    "reason", ["StartFailed", "DeadlineExceeded", "Terminated", "Lost", "SecretMissing", "Failed", "Idle"]
)
def test_permanent_failures_are_not_retried(reason: str) -> None:
    decision = decide_next(make_run(), reason, AttemptHistory(retry_policy_of({"retries": 3})))
    assert decision == NoRetry(f"not retried after {reason}")


def test_retry_on_of_a_function_selects_the_retried_failures() -> None:
    function = {"name": "train", "kind": "container", "image": "a.example/b:1", "retry_on": ["NodeLost"]}
    retry_policy = retry_policy_of({"retries": 1, "function": function})
    assert isinstance(decide_next(make_run(), "NodeLost", AttemptHistory(retry_policy)), NextAttempt)
    decision = decide_next(make_run(), "ExitCode", AttemptHistory(retry_policy))
    assert decision == NoRetry("not retried after ExitCode (not in retry_on)")


def test_the_last_attempt_is_reported_as_the_last() -> None:
    decision = decide_next(make_run(3), "ExitCode", AttemptHistory(retry_policy_of({"retries": 2}), [0, 0]))
    assert decision == NoRetry("that was attempt 3 of 3")


def test_the_message_contains_the_start_of_the_next_attempt() -> None:
    decision = decide_next(make_run(2), "ExitCode", AttemptHistory(retry_policy_of({"retries": 2}), [0]))
    assert decision == NextAttempt(0, 20, "attempt 3 of 3 starts in 20 s")


# Memory


def test_memory_grows_up_to_its_maximum_without_using_retries() -> None:
    requested = {"resources": {"mem": "8Gi"}, "on_oom": {"grow": 1.5, "max": "20Gi"}}
    assert run_failures(requested, *["OOMKilled"] * 9) == [(12 * GI, 0), (18 * GI, 0), (20 * GI, 0)]


def test_out_of_memory_at_the_maximum_uses_a_retry() -> None:
    requested = {"resources": {"mem": "8Gi"}, "on_oom": {"grow": 2, "max": "16Gi"}, "retries": 1}
    assert run_failures(requested, *["OOMKilled"] * 9) == [(16 * GI, 0), (16 * GI, 0)]


def test_retries_keep_the_grown_memory_and_are_counted_separately() -> None:
    requested = {"resources": {"mem": "8Gi"}, "on_oom": {"grow": 2}, "retries": 2}
    reasons = ["ExitCode", "OOMKilled", "ExitCode", "OOMKilled", "ExitCode", "OOMKilled"]
    next_attempts = run_failures(requested, *reasons)
    assert next_attempts == [(8 * GI, 10), (16 * GI, 0), (16 * GI, 20), (32 * GI, 0)]


def test_request_and_limit_grow_together_and_the_maximum_applies_to_the_limit() -> None:
    retry_policy = retry_policy_of(
        {"resources": {"mem": {"requests": "4Gi", "limits": "8Gi"}}, "on_oom": {"grow": 1.5, "max": "10Gi"}}
    )
    assert retry_policy.grow_from(4 * GI) == 5 * GI
    assert retry_policy.limit_with(5 * GI) == 10 * GI
    assert retry_policy.grow_from(5 * GI) is None
    decision = decide_next(make_run(mem=4 * GI), "OOMKilled", AttemptHistory(retry_policy))
    assert decision == NextAttempt(5 * GI, 0, "attempt 2 starts now with 10 GiB of memory")


def test_without_a_limit_the_request_grows() -> None:
    retry_policy = retry_policy_of(
        {"resources": {"mem": {"requests": "4Gi", "limits": "unlimited"}}, "on_oom": {"grow": 2, "max": "9Gi"}}
    )
    assert (retry_policy.limit, retry_policy.grow_from(4 * GI), retry_policy.grow_from(8 * GI)) == (
        None,
        8 * GI,
        9 * GI,
    )


def test_grown_memory_is_rounded_up_to_a_mebibyte() -> None:
    retry_policy = retry_policy_of({"resources": {"mem": "1Gi"}, "on_oom": {"grow": 1.3}})
    assert retry_policy.grow_from(GI) == 1332 * 2**20


def test_memory_of_all_pods_of_a_run_grows() -> None:
    requested = {"resources": {"mem": "8Gi"}, "on_oom": {"grow": 2}, "replicas": 3}
    assert run_failures(requested, "OOMKilled", "OOMKilled") == [(48 * GI, 0), (96 * GI, 0)]


def test_a_run_without_a_memory_request_cannot_grow() -> None:
    requested = {"on_oom": {"grow": 2}}
    assert run_failures(requested, "OOMKilled") == []
    assert run_failures({**requested, "retries": 1}, *["OOMKilled"] * 3) == [(0, 0)]


def test_memory_set_by_a_compute_resource_does_not_grow() -> None:
    big = make_compute_resource("big", resources={"mem": "8Gi"})
    requested = {"profile": "big", "on_oom": {"grow": 2}, "retries": 1}
    assert run_failures(requested, "OOMKilled", "OOMKilled", objects=(big,)) == [(8 * GI, 0)]


def test_memory_does_not_grow_beyond_policy_rules() -> None:
    bounded = make_policy(rules={"resources.mem.limits": {"max": "12Gi"}})
    requested = {"resources": {"mem": {"requests": "4Gi", "limits": "8Gi"}}, "on_oom": {"grow": 2, "max": "64Gi"}}
    assert run_failures(requested, *["OOMKilled"] * 3, objects=(bounded,)) == [(6 * GI, 0)]


def test_the_number_of_memory_increases_is_limited() -> None:
    requested = {"resources": {"mem": "1Gi"}, "on_oom": {"grow": "1.0000001"}}
    next_attempts = run_failures(requested, *["OOMKilled"] * 99)
    assert len(next_attempts) == attempts.MAX_GROWTHS
    assert next_attempts[-1] == (GI + attempts.MAX_GROWTHS * 2**20, 0)


def test_grown_memory_stays_within_64_bits() -> None:
    requested = {"resources": {"mem": {"requests": "1Ei", "limits": "7Ei"}}, "on_oom": {"grow": 10}, "replicas": 4}
    retry_policy, memory = retry_policy_of(requested), make_plan_record(requested).demand.resources.mem_bytes
    decision = decide_next(make_run(mem=memory), "OOMKilled", AttemptHistory(retry_policy))
    assert isinstance(decision, NextAttempt)
    assert decision.mem_bytes < 2**63
    assert (retry_policy.limit_with(decision.mem_bytes // 4) or 0) < 2**63


def test_the_last_out_of_memory_failure_reports_the_memory_cap() -> None:
    retry_policy = retry_policy_of({"resources": {"mem": "8Gi"}, "on_oom": {"grow": 2, "max": "8Gi"}})
    decision = decide_next(make_run(mem=8 * GI), "OOMKilled", AttemptHistory(retry_policy))
    assert decision == NoRetry("its memory cannot grow beyond 8 GiB")


@pytest.mark.parametrize(("seconds", "paused"), [(-1, True), (0, False), (1, False)])
def test_a_run_is_paused_until_its_retry_time(seconds: int, paused: bool) -> None:
    run = make(RunRecord, "r1", retry_at=NOW)
    assert attempts.is_paused(run, NOW + timedelta(seconds=seconds)) is paused
    assert not attempts.is_paused(make(RunRecord, "r1"), NOW)

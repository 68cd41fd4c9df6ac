"""Properties of all of a run's attempts."""

from dataclasses import replace
from datetime import timedelta
from fractions import Fraction
from typing import get_args

from hypothesis import given
from hypothesis import strategies as st

from fairlead.lifecycle import lifecycle
from fairlead.lifecycle.attempts import BACKOFF, MAX_GROWTHS, AttemptHistory, RetryPolicy
from fairlead.lifecycle.lifecycle import RETRYING, Decision, ExecutorAction
from fairlead.model.records import RunRecord
from fairlead.model.requests import RetryReason
from fairlead.model.runs import FINAL, Observation, Phase, State
from tests.contracts.samples import NOW, make

REASONS = st.sampled_from([*get_args(RetryReason), "StartFailed", "DeadlineExceeded"])
FAILURES = st.builds(Observation, phase=st.just(Phase.FAILED), reason=REASONS, stopped=st.just(False))
ENDS = FAILURES | st.builds(Observation, phase=st.sampled_from([Phase.FAILED, Phase.SUCCEEDED]), stopped=st.booleans())
BYTES = st.integers(1, 2**50)


@st.composite
def retry_policies(draw: st.DrawFn) -> RetryPolicy:
    """Valid retry policies: the limit is not below the request."""
    request = draw(st.just(0) | BYTES)
    return RetryPolicy(
        retries=draw(st.integers(0, 20)),
        retry_on=tuple(draw(st.sets(st.sampled_from(get_args(RetryReason))))),
        grow=draw(st.none() | st.fractions(Fraction(10001, 10000), 10)),
        pods=draw(st.integers(1, 5)),
        request=request,
        limit=draw(st.none() | st.integers(request, 2**52)) if request else None,
        max_memory=draw(BYTES | st.just(2**63 - 1)),
    )


def make_first_attempt(policy: RetryPolicy, **more: str) -> RunRecord:
    """A running run on its first attempt."""
    fields = {"mem_bytes": policy.request * policy.pods, "server_id": "s1", "started_at": NOW}
    return make(RunRecord, "r1", **{"state": "running", "reason": "Running", "message": "is running", **fields, **more})


def next_attempt(run: RunRecord, decision: Decision) -> RunRecord:
    """The run after a decision, on its next attempt if there is one."""
    if decision.failure is None:
        return replace(run, state=str(decision.state), active=decision.state not in FINAL)
    return replace(run, attempt=run.attempt + 1, mem_bytes=decision.failure.retry.mem_bytes)


def run_attempts(policy: RetryPolicy, ends: list[Observation]) -> list[tuple[RunRecord, Decision]]:
    """Each of a run's attempts with the decision when it ends, until the run ends."""
    run, memory_history, attempts = make_first_attempt(policy), list[int](), list[tuple[RunRecord, Decision]]()
    for observation in ends:
        decision = lifecycle.decide(run, observation, AttemptHistory(policy, tuple(memory_history)))
        attempts.append((run, decision))
        if decision.state in FINAL:
            break
        memory_history.append(run.mem_bytes)
        run = next_attempt(run, decision)
    return attempts


@given(retry_policies(), st.lists(FAILURES, min_size=60, max_size=60))
def test_the_number_of_attempts_is_limited(policy: RetryPolicy, ends: list[Observation]) -> None:
    attempts = run_attempts(policy, ends)
    grown = sum(
        decision.failure is not None and decision.failure.retry.mem_bytes > run.mem_bytes for run, decision in attempts
    )
    assert grown <= (MAX_GROWTHS if policy.grow is not None and policy.request else 0)
    assert len(attempts) <= 1 + policy.retries + grown
    assert attempts[-1][1].state is State.FAILED


@given(retry_policies(), st.lists(FAILURES, min_size=60, max_size=60))
def test_memory_never_shrinks_and_never_exceeds_the_cap(policy: RetryPolicy, ends: list[Observation]) -> None:
    before = policy.request * policy.pods
    for run, _ in run_attempts(policy, ends):
        assert run.mem_bytes >= before
        request = policy.memory_of(run)
        if run.mem_bytes > policy.request * policy.pods:
            assert (policy.limit_with(request) or request) <= policy.max_memory
            assert run.mem_bytes < 2**63
        before = run.mem_bytes


@given(retry_policies(), st.lists(ENDS, min_size=60, max_size=60))
def test_only_failed_attempts_that_were_not_stopped_are_retried(policy: RetryPolicy, ends: list[Observation]) -> None:
    for (_, decision), observation in zip(run_attempts(policy, ends), ends, strict=False):
        if decision.failure is not None:
            assert (observation.phase, observation.stopped) == (Phase.FAILED, False)
            assert decision.reason == RETRYING
            assert decision.failure.reason in get_args(RetryReason)


@given(retry_policies(), ENDS, st.sampled_from([State.RUNNING, State.STOPPING]))
def test_stopped_runs_are_never_retried(policy: RetryPolicy, observation: Observation, state: State) -> None:
    run = make_first_attempt(policy, state=str(state), stopped_by="mia")
    decision = lifecycle.decide(run, observation, AttemptHistory(policy))
    assert (decision.state in FINAL, decision.failure) == (True, None)


@given(retry_policies(), st.none() | ENDS, st.sampled_from(sorted(FINAL)))
def test_final_states_never_change(policy: RetryPolicy, observation: Observation | None, state: State) -> None:
    run = make_first_attempt(policy, state=str(state), reason="Before", message="as it was")
    assert lifecycle.decide(run, observation, AttemptHistory(policy)) == Decision(
        state, ExecutorAction.NONE, "Before", "as it was"
    )


@given(retry_policies(), st.lists(FAILURES, min_size=60, max_size=60))
def test_messages_contain_the_failure_and_the_next_attempt(policy: RetryPolicy, ends: list[Observation]) -> None:
    for run, decision in run_attempts(policy, ends):
        assert "None" not in decision.message
        if decision.failure is not None:
            assert f"attempt {run.attempt} failed ({decision.failure.reason}): " in decision.message
            assert f"attempt {run.attempt + 1}" in decision.failure.retry.message
            assert 0 <= timedelta(seconds=decision.failure.retry.pause_seconds).total_seconds() <= BACKOFF.longest

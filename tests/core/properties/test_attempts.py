"""Properties of all attempts of a run."""

from dataclasses import replace
from datetime import timedelta
from fractions import Fraction
from typing import get_args

from hypothesis import given
from hypothesis import strategies as st

from fairlead.core import lifecycle
from fairlead.core.attempts import MAX_GROWTHS, MAX_PAUSE_SECONDS, AttemptHistory, RetryPolicy
from fairlead.core.lifecycle import RETRYING, Decision, ExecutorAction
from fairlead.model.observations import Observation, Phase
from fairlead.model.oom_retries import RetryReason
from fairlead.model.records import RunRecord
from fairlead.model.states import FINAL, State
from tests.contracts.samples import NOW, make

REASONS = st.sampled_from([*get_args(RetryReason), "StartFailed", "DeadlineExceeded"])
FAILURES = st.builds(Observation, phase=st.just(Phase.FAILED), reason=REASONS, stopped=st.just(False))
ENDS = FAILURES | st.builds(Observation, phase=st.sampled_from([Phase.FAILED, Phase.SUCCEEDED]), stopped=st.booleans())
BYTES = st.integers(1, 2**50)


@st.composite
def terms(draw: st.DrawFn) -> RetryPolicy:
    """Terms as plans may have them: a limit is not under the request."""
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


def make_first(said: RetryPolicy, **fields: str) -> RunRecord:
    """A run at its first try, which runs."""
    held = {"mem_bytes": said.request * said.pods, "server_id": "s1", "started_at": NOW}
    return make(RunRecord, "r1", **{"state": "running", "reason": "Running", "message": "is running", **held, **fields})


def go_on(run: RunRecord, decision: Decision) -> RunRecord:
    """The run after a decision, at its next attempt if there is one."""
    if decision.failure is None:
        return replace(run, state=str(decision.state), active=decision.state not in FINAL)
    return replace(run, attempt=run.attempt + 1, mem_bytes=decision.failure.retry.mem_bytes)


def live(said: RetryPolicy, ends: list[Observation]) -> list[tuple[RunRecord, Decision]]:
    """Each try of a run with what was decided at its end, for as long as there are tries."""
    run, held, lived = make_first(said), list[int](), list[tuple[RunRecord, Decision]]()
    for seen in ends:
        decision = lifecycle.decide(run, seen, AttemptHistory(said, tuple(held)))
        lived.append((run, decision))
        if decision.state in FINAL:
            break
        held.append(run.mem_bytes)
        run = go_on(run, decision)
    return lived


@given(terms(), st.lists(FAILURES, min_size=60, max_size=60))
def test_there_are_never_more_tries_than_allowed(said: RetryPolicy, ends: list[Observation]) -> None:
    lived = live(said, ends)
    grown = sum(
        decision.failure is not None and decision.failure.retry.mem_bytes > run.mem_bytes for run, decision in lived
    )
    assert grown <= (MAX_GROWTHS if said.grow is not None and said.request else 0)
    assert len(lived) <= 1 + said.retries + grown
    assert lived[-1][1].state is State.FAILED


@given(terms(), st.lists(FAILURES, min_size=60, max_size=60))
def test_memory_never_shrinks_and_is_never_above_the_bound(said: RetryPolicy, ends: list[Observation]) -> None:
    before = said.request * said.pods
    for run, _ in live(said, ends):
        assert run.mem_bytes >= before
        request = said.memory_of(run)
        if run.mem_bytes > said.request * said.pods:
            assert (said.limit_with(request) or request) <= said.max_memory
            assert run.mem_bytes < 2**63
        before = run.mem_bytes


@given(terms(), st.lists(ENDS, min_size=60, max_size=60))
def test_a_try_is_followed_only_by_what_failed_and_was_not_made_to_end(
    said: RetryPolicy, ends: list[Observation]
) -> None:
    for (_, decision), seen in zip(live(said, ends), ends, strict=False):
        if decision.failure is not None:
            assert (seen.phase, seen.stopped) == (Phase.FAILED, False)
            assert decision.reason == RETRYING
            assert decision.failure.reason in get_args(RetryReason)


@given(terms(), ENDS, st.sampled_from([State.RUNNING, State.STOPPING]))
def test_what_somebody_has_stopped_is_never_tried_again(said: RetryPolicy, seen: Observation, state: State) -> None:
    run = make_first(said, state=str(state), stopped_by="mia")
    decision = lifecycle.decide(run, seen, AttemptHistory(said))
    assert (decision.state in FINAL, decision.failure) == (True, None)


@given(terms(), st.none() | ENDS, st.sampled_from(sorted(FINAL)))
def test_final_states_never_change(said: RetryPolicy, seen: Observation | None, state: State) -> None:
    run = make_first(said, state=str(state), reason="Before", message="as it was")
    assert lifecycle.decide(run, seen, AttemptHistory(said)) == Decision(
        state, ExecutorAction.NONE, "Before", "as it was"
    )


@given(terms(), st.lists(FAILURES, min_size=60, max_size=60))
def test_every_end_of_a_try_says_how_it_failed_and_what_comes_next(said: RetryPolicy, ends: list[Observation]) -> None:
    for run, decision in live(said, ends):
        assert "None" not in decision.message
        if decision.failure is not None:
            assert f"attempt {run.attempt} failed ({decision.failure.reason}): " in decision.message
            assert f"attempt {run.attempt + 1}" in decision.failure.retry.message
            assert 0 <= timedelta(seconds=decision.failure.retry.pause_seconds).total_seconds() <= MAX_PAUSE_SECONDS

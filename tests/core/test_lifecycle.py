"""Lifecycle decisions for every state and observation."""

from typing import Any

import pytest

from fairlead.core import lifecycle
from fairlead.core.attempts import AttemptHistory, RetryPolicy
from fairlead.core.lifecycle import Decision, ExecutorAction
from fairlead.model.observations import Observation, Phase
from fairlead.model.records import RunRecord
from fairlead.model.states import FINAL, State
from tests.contracts.samples import NOW, make

GOING = [State.QUEUED, State.PENDING, State.STARTING, State.RUNNING, State.DEGRADED]


def make_run(state: State, **fields: Any) -> RunRecord:
    """A run at a state, which says why it is there."""
    if state is State.STOPPING:
        fields = {"stopped_by": "mia", **fields}
    return make(RunRecord, "r1", state=str(state), **{"reason": "Before", "message": "as it was", **fields})


def decide(state: State, seen: Phase | None, **more: Any) -> Decision:
    """The decision for a state and an observed phase."""
    observed = None if seen is None else Observation(seen, **more)
    return lifecycle.decide(make_run(state), observed)


TABLE: list[tuple[State, Phase | None, State, ExecutorAction]] = [
    (State.QUEUED, None, State.PENDING, ExecutorAction.START),
    (State.QUEUED, Phase.STARTING, State.STARTING, ExecutorAction.NONE),
    (State.QUEUED, Phase.RUNNING, State.RUNNING, ExecutorAction.NONE),
    (State.QUEUED, Phase.SUCCEEDED, State.COMPLETED, ExecutorAction.NONE),
    (State.QUEUED, Phase.FAILED, State.FAILED, ExecutorAction.NONE),
    (State.PENDING, None, State.PENDING, ExecutorAction.START),
    (State.PENDING, Phase.STARTING, State.STARTING, ExecutorAction.NONE),
    (State.PENDING, Phase.RUNNING, State.RUNNING, ExecutorAction.NONE),
    (State.PENDING, Phase.SUCCEEDED, State.COMPLETED, ExecutorAction.NONE),
    (State.PENDING, Phase.FAILED, State.FAILED, ExecutorAction.NONE),
    (State.STARTING, None, State.PENDING, ExecutorAction.START),
    (State.STARTING, Phase.STARTING, State.STARTING, ExecutorAction.NONE),
    (State.STARTING, Phase.RUNNING, State.RUNNING, ExecutorAction.NONE),
    (State.STARTING, Phase.SUCCEEDED, State.COMPLETED, ExecutorAction.NONE),
    (State.STARTING, Phase.FAILED, State.FAILED, ExecutorAction.NONE),
    (State.RUNNING, None, State.FAILED, ExecutorAction.NONE),
    (State.RUNNING, Phase.PENDING, State.RUNNING, ExecutorAction.NONE),
    (State.RUNNING, Phase.STARTING, State.RUNNING, ExecutorAction.NONE),
    (State.RUNNING, Phase.RUNNING, State.RUNNING, ExecutorAction.NONE),
    (State.RUNNING, Phase.SUCCEEDED, State.COMPLETED, ExecutorAction.NONE),
    (State.RUNNING, Phase.FAILED, State.FAILED, ExecutorAction.NONE),
    (State.STOPPING, Phase.STARTING, State.STOPPING, ExecutorAction.STOP),
    (State.STOPPING, Phase.RUNNING, State.STOPPING, ExecutorAction.STOP),
    (State.STOPPING, Phase.SUCCEEDED, State.COMPLETED, ExecutorAction.NONE),
    (State.STOPPING, Phase.FAILED, State.FAILED, ExecutorAction.NONE),
]


@pytest.mark.parametrize(("state", "seen", "after", "act"), TABLE)
def test_each_state_goes_on_by_what_is_seen(
    state: State, seen: Phase | None, after: State, act: ExecutorAction
) -> None:
    decision = decide(state, seen)
    assert (decision.state, decision.action) == (after, act)


@pytest.mark.parametrize("state", sorted(FINAL))
@pytest.mark.parametrize("seen", [None, *Phase])
def test_what_has_ended_stays_as_it_is(state: State, seen: Phase | None) -> None:
    assert decide(state, seen, reason="Other", message="other") == Decision(
        state, ExecutorAction.NONE, "Before", "as it was"
    )


def test_what_is_stopped_before_anything_was_there_is_stopped() -> None:
    decision = decide(State.STOPPING, None)
    assert (decision.state, decision.reason) == (State.STOPPED, "Stopped")
    assert decision.message == "stopped by mia before it started"
    assert decision.action is ExecutorAction.STOP  # otherwise objects that were not observed could start later


@pytest.mark.parametrize("state", [*GOING, State.STOPPING])
def test_what_ended_because_it_was_asked_to_is_stopped(state: State) -> None:
    seen = Observation(Phase.FAILED, reason="Stopped", exit_code=143, stopped=True)
    decision = lifecycle.decide(make_run(state, stopped_by="mia"), seen)
    assert decision == Decision(State.STOPPED, ExecutorAction.NONE, "Stopped", "stopped by mia")


def test_what_nobody_here_has_stopped_was_terminated() -> None:
    decision = decide(State.RUNNING, Phase.FAILED, stopped=True)
    assert (decision.state, decision.reason) == (State.FAILED, "Terminated")
    assert "terminated from outside Fairlead" in decision.message


@pytest.mark.parametrize(
    ("phase", "state", "said"),
    [(Phase.SUCCEEDED, State.COMPLETED, "completed"), (Phase.FAILED, State.FAILED, "failed")],
)
def test_what_ended_before_the_stop_arrived_is_told_as_it_was(phase: Phase, state: State, said: str) -> None:
    decision = decide(State.STOPPING, phase)
    assert decision.state is state
    assert decision.message == f"{said}; it ended before mia stopped it"


def test_how_a_run_failed_is_told_in_the_words_of_its_executor() -> None:
    decision = decide(State.RUNNING, Phase.FAILED, reason="OOMKilled", message="used 3 GiB of memory")
    assert decision == Decision(State.FAILED, ExecutorAction.NONE, "OOMKilled", "used 3 GiB of memory")


@pytest.mark.parametrize("state", [State.RUNNING, State.DEGRADED])
def test_a_run_of_which_nothing_is_left_is_lost(state: State) -> None:
    decision = decide(state, None)
    assert (decision.state, decision.action, decision.reason) == (State.FAILED, ExecutorAction.NONE, "Lost")


def test_a_run_that_waits_for_another_place_is_lost_too_for_it_has_begun_before() -> None:
    evicted = decide(State.RUNNING, Phase.PENDING, reason="Evicted", message="waits for another place")
    assert (evicted.state, evicted.reason) == (State.PENDING, "Evicted")
    decision = lifecycle.decide(make_run(evicted.state, started_at=NOW), None)
    assert (decision.state, decision.action, decision.reason) == (State.FAILED, ExecutorAction.NONE, "Lost")


def test_what_is_started_again_after_a_crash_says_the_same_again() -> None:
    """Otherwise each attempt would create an event."""
    first = decide(State.QUEUED, None)
    kept = make_run(first.state, reason=first.reason, message=first.message)
    assert lifecycle.decide(kept, None) == first


def test_what_is_stopped_again_says_the_same_again() -> None:
    decision = decide(State.STOPPING, Phase.RUNNING)
    assert (decision.action, decision.reason, decision.message) == (ExecutorAction.STOP, "Before", "as it was")


@pytest.mark.parametrize("degraded", [None, *Phase])
def test_a_degraded_run_goes_on_like_a_running_one(degraded: Phase | None) -> None:
    assert decide(State.DEGRADED, degraded).action is ExecutorAction.NONE


# Tries


RETRIES = AttemptHistory(RetryPolicy(retries=2))


def test_what_failed_and_has_tries_left_waits_to_be_tried_again() -> None:
    seen = Observation(Phase.FAILED, reason="ExitCode", message="ValueError: bad", exit_code=1)
    decision = lifecycle.decide(make_run(State.RUNNING), seen, RETRIES)
    assert (decision.state, decision.action, decision.reason) == (State.QUEUED, ExecutorAction.NONE, "Retrying")
    assert decision.message == "attempt 1 failed (ExitCode): ValueError: bad; attempt 2 of 3 starts in 10 s"
    failure = decision.failure
    assert failure is not None
    assert (failure.reason, failure.message, failure.retry.pause_seconds) == ("ExitCode", "ValueError: bad", 10)


def test_the_last_try_fails_as_any_run_does_and_says_that_it_was_the_last() -> None:
    seen = Observation(Phase.FAILED, reason="ExitCode", message="ValueError: bad")
    decision = lifecycle.decide(make_run(State.RUNNING, attempt=3), seen, AttemptHistory(RETRIES.policy, [0, 0]))
    message = "ValueError: bad; that was attempt 3 of 3"
    assert decision == Decision(State.FAILED, ExecutorAction.NONE, "ExitCode", message)


@pytest.mark.parametrize("seen", [Observation(Phase.SUCCEEDED), None])
def test_what_has_completed_or_is_lost_is_not_tried_again(seen: Observation | None) -> None:
    decision = lifecycle.decide(make_run(State.RUNNING, started_at=NOW), seen, RETRIES)
    assert (decision.state in FINAL, decision.failure) == (True, None)


def test_what_failed_before_its_stop_arrived_is_not_tried_again() -> None:
    seen = Observation(Phase.FAILED, reason="ExitCode", message="exited with 1")
    decision = lifecycle.decide(make_run(State.STOPPING), seen, RETRIES)
    message = "exited with 1; it ended before mia stopped it"
    assert decision == Decision(State.FAILED, ExecutorAction.NONE, "ExitCode", message)


@pytest.mark.parametrize(("attempt", "it"), [(1, "it"), (2, "attempt 2")])
def test_what_is_stopped_while_it_waits_says_what_had_not_started(attempt: int, it: str) -> None:
    waiting = make_run(State.QUEUED, attempt=attempt)
    decision = lifecycle.decide_stop(waiting, "mia")
    assert (decision.state, decision.message) == (State.STOPPED, f"stopped by mia before {it} started")
    gone = lifecycle.decide(make_run(State.STOPPING, attempt=attempt), None, RETRIES)
    assert (gone.state, gone.message) == (State.STOPPED, f"stopped by mia before {it} started")


@pytest.mark.parametrize("state", [State.RUNNING, State.DEGRADED])
def test_a_served_run_of_which_nothing_answers_any_more_is_degraded(state: State) -> None:
    found = lifecycle.decide(make_run(state, action="serve"), Observation(Phase.STARTING))
    assert (found.state, found.action, found.reason) == (State.DEGRADED, ExecutorAction.NONE, "NotReady")
    assert decide(state, Phase.STARTING).reason != "NotReady"

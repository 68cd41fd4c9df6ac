"""Lifecycle decisions for every state and observation."""

from typing import Any

import pytest

from fairlead.lifecycle import lifecycle
from fairlead.lifecycle.attempts import AttemptHistory, RetryPolicy
from fairlead.lifecycle.lifecycle import Decision, ExecutorAction
from fairlead.model.records import RunRecord
from fairlead.model.runs import FINAL, Observation, Phase, State
from tests.contracts.samples import NOW, make

ACTIVE = [State.QUEUED, State.PENDING, State.STARTING, State.RUNNING, State.DEGRADED]


def make_run(state: State, **fields: Any) -> RunRecord:
    """A run in a state, with a reason and a message."""
    if state is State.STOPPING:
        fields = {"stopped_by": "mia", **fields}
    return make(RunRecord, "r1", state=str(state), **{"reason": "Before", "message": "as it was", **fields})


def decide(state: State, phase: Phase | None, **more: Any) -> Decision:
    """The decision for a state and an observed phase."""
    observation = None if phase is None else Observation(phase, **more)
    return lifecycle.decide(make_run(state), observation)


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


@pytest.mark.parametrize(("state", "phase", "next_state", "action"), TABLE)
def test_observed_phases_determine_the_next_state(
    state: State, phase: Phase | None, next_state: State, action: ExecutorAction
) -> None:
    decision = decide(state, phase)
    assert (decision.state, decision.action) == (next_state, action)


@pytest.mark.parametrize("state", sorted(FINAL))
@pytest.mark.parametrize("phase", [None, *Phase])
def test_ended_runs_do_not_change(state: State, phase: Phase | None) -> None:
    assert decide(state, phase, reason="Other", message="other") == Decision(
        state, ExecutorAction.NONE, "Before", "as it was"
    )


def test_a_run_without_objects_is_stopped_immediately() -> None:
    decision = decide(State.STOPPING, None)
    assert (decision.state, decision.reason) == (State.STOPPED, "Stopped")
    assert decision.message == "stopped by mia before it started"
    assert decision.action is ExecutorAction.STOP  # otherwise objects that were not observed could start later


@pytest.mark.parametrize("state", [*ACTIVE, State.STOPPING])
def test_a_run_that_ended_on_request_is_stopped(state: State) -> None:
    observation = Observation(Phase.FAILED, reason="Stopped", exit_code=143, stopped=True)
    decision = lifecycle.decide(make_run(state, stopped_by="mia"), observation)
    assert decision == Decision(State.STOPPED, ExecutorAction.NONE, "Stopped", "stopped by mia")


def test_a_run_stopped_from_outside_is_terminated() -> None:
    decision = decide(State.RUNNING, Phase.FAILED, stopped=True)
    assert (decision.state, decision.reason) == (State.FAILED, "Terminated")
    assert "terminated from outside Fairlead" in decision.message


@pytest.mark.parametrize(
    ("phase", "state", "outcome"),
    [(Phase.SUCCEEDED, State.COMPLETED, "completed"), (Phase.FAILED, State.FAILED, "failed")],
)
def test_a_run_that_ended_before_the_stop_keeps_its_outcome(phase: Phase, state: State, outcome: str) -> None:
    decision = decide(State.STOPPING, phase)
    assert decision.state is state
    assert decision.message == f"{outcome}; it ended before mia stopped it"


def test_reason_and_message_of_a_failure_come_from_the_executor() -> None:
    decision = decide(State.RUNNING, Phase.FAILED, reason="OOMKilled", message="used 3 GiB of memory")
    assert decision == Decision(State.FAILED, ExecutorAction.NONE, "OOMKilled", "used 3 GiB of memory")


@pytest.mark.parametrize(
    ("action", "phase"), [("job", Phase.FAILED), ("serve", Phase.DEGRADED), ("serve", Phase.STARTING)]
)
def test_messages_contain_no_control_sequences(action: str, phase: Phase) -> None:
    observation = Observation(phase, message="boom \x1b]52;c;Zm9v\x07\x1b[2J\x9b31mred\x1b")
    decision = lifecycle.decide(make_run(State.RUNNING, action=action), observation)
    assert decision.message.removeprefix("no longer responding: ") == "boom red"


@pytest.mark.parametrize("state", [State.RUNNING, State.DEGRADED])
def test_a_running_run_without_objects_is_lost(state: State) -> None:
    decision = decide(state, None)
    assert (decision.state, decision.action, decision.reason) == (State.FAILED, ExecutorAction.NONE, "Lost")


def test_an_evicted_run_without_objects_is_lost() -> None:
    evicted = decide(State.RUNNING, Phase.PENDING, reason="Evicted", message="waits for another place")
    assert (evicted.state, evicted.reason) == (State.PENDING, "Evicted")
    decision = lifecycle.decide(make_run(evicted.state, started_at=NOW), None)
    assert (decision.state, decision.action, decision.reason) == (State.FAILED, ExecutorAction.NONE, "Lost")


def test_starting_again_after_a_crash_keeps_reason_and_message() -> None:
    """Otherwise each attempt would create an event."""
    first = decide(State.QUEUED, None)
    run = make_run(first.state, reason=first.reason, message=first.message)
    assert lifecycle.decide(run, None) == first


def test_stopping_again_keeps_reason_and_message() -> None:
    decision = decide(State.STOPPING, Phase.RUNNING)
    assert (decision.action, decision.reason, decision.message) == (ExecutorAction.STOP, "Before", "as it was")


@pytest.mark.parametrize("phase", [None, *Phase])
def test_a_degraded_run_needs_no_action(phase: Phase | None) -> None:
    assert decide(State.DEGRADED, phase).action is ExecutorAction.NONE


# Retries


RETRIES = AttemptHistory(RetryPolicy(retries=2))


def test_a_failed_run_with_retries_left_is_queued_again() -> None:
    observation = Observation(Phase.FAILED, reason="ExitCode", message="ValueError: bad", exit_code=1)
    decision = lifecycle.decide(make_run(State.RUNNING), observation, RETRIES)
    assert (decision.state, decision.action, decision.reason) == (State.QUEUED, ExecutorAction.NONE, "Retrying")
    assert decision.message == "attempt 1 failed (ExitCode): ValueError: bad; attempt 2 of 3 starts in 10 s"
    failure = decision.failure
    assert failure is not None
    assert (failure.reason, failure.message, failure.retry.pause_seconds) == ("ExitCode", "ValueError: bad", 10)


def test_a_failure_of_the_last_attempt_is_final() -> None:
    observation = Observation(Phase.FAILED, reason="ExitCode", message="ValueError: bad")
    decision = lifecycle.decide(make_run(State.RUNNING, attempt=3), observation, AttemptHistory(RETRIES.policy, [0, 0]))
    message = "ValueError: bad; that was attempt 3 of 3"
    assert decision == Decision(State.FAILED, ExecutorAction.NONE, "ExitCode", message)


@pytest.mark.parametrize("observation", [Observation(Phase.SUCCEEDED), None])
def test_completed_and_lost_runs_are_not_retried(observation: Observation | None) -> None:
    decision = lifecycle.decide(make_run(State.RUNNING, started_at=NOW), observation, RETRIES)
    assert (decision.state in FINAL, decision.failure) == (True, None)


def test_a_run_that_failed_before_its_stop_is_not_retried() -> None:
    observation = Observation(Phase.FAILED, reason="ExitCode", message="exited with 1")
    decision = lifecycle.decide(make_run(State.STOPPING), observation, RETRIES)
    message = "exited with 1; it ended before mia stopped it"
    assert decision == Decision(State.FAILED, ExecutorAction.NONE, "ExitCode", message)


@pytest.mark.parametrize(("attempt", "subject"), [(1, "it"), (2, "attempt 2")])
def test_the_stop_message_of_a_waiting_run_names_the_attempt(attempt: int, subject: str) -> None:
    waiting = make_run(State.QUEUED, attempt=attempt)
    decision = lifecycle.decide_stop(waiting, "mia")
    assert (decision.state, decision.message) == (State.STOPPED, f"stopped by mia before {subject} started")
    stopped = lifecycle.decide(make_run(State.STOPPING, attempt=attempt), None, RETRIES)
    assert (stopped.state, stopped.message) == (State.STOPPED, f"stopped by mia before {subject} started")


@pytest.mark.parametrize("state", [State.RUNNING, State.DEGRADED])
def test_a_served_run_that_stops_responding_is_degraded(state: State) -> None:
    decision = lifecycle.decide(make_run(state, action="serve"), Observation(Phase.STARTING))
    assert (decision.state, decision.action, decision.reason) == (State.DEGRADED, ExecutorAction.NONE, "NotReady")
    assert decide(state, Phase.STARTING).reason != "NotReady"

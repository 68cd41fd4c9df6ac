"""Properties of lifecycle decisions for random records and observations."""

from dataclasses import replace

from hypothesis import assume, given
from hypothesis import strategies as st

from fairlead.lifecycle import lifecycle
from fairlead.lifecycle.lifecycle import ExecutorAction
from fairlead.model.records import RunRecord
from fairlead.model.runs import FINAL, Observation, Phase, State
from tests.contracts.samples import NOW, make

TEXTS = st.sampled_from(["", "OOMKilled", "used too much"])
OBSERVATIONS = st.builds(
    Observation,
    phase=st.sampled_from(Phase),
    reason=TEXTS,
    message=TEXTS,
    exit_code=st.none() | st.integers(0, 255),
    stopped=st.booleans(),
    started_at=st.none() | st.just(NOW),
)


@st.composite
def runs(draw: st.DrawFn) -> RunRecord:
    """A random stored run; a stopping run has `stopped_by`."""
    state = draw(st.sampled_from(State))
    by = "mia" if state is State.STOPPING else draw(st.sampled_from([None, "mia"]))
    return make(RunRecord, "r1", state=str(state), reason="Before", message="as it was", stopped_by=by)


@given(runs(), st.none() | OBSERVATIONS)
def test_final_states_never_change(run: RunRecord, observation: Observation | None) -> None:
    assume(run.state in FINAL)
    decision = lifecycle.decide(run, observation)
    assert (decision.state, decision.action, decision.message) == (run.state, ExecutorAction.NONE, run.message)


@given(st.sampled_from([State.QUEUED, State.PENDING, State.STARTING]), st.none() | OBSERVATIONS)
def test_waiting_is_never_a_failure(state: State, observation: Observation | None) -> None:
    decision = lifecycle.decide(make(RunRecord, "r1", state=str(state)), observation)
    assume(observation is None or observation.phase is not Phase.FAILED)
    assert decision.state is not State.FAILED


@given(st.none() | OBSERVATIONS)
def test_a_stopping_run_is_stopped_and_never_started(observation: Observation | None) -> None:
    run = make(RunRecord, "r1", state="stopping", reason="StopRequested", message="mia stops it", stopped_by="mia")
    decision = lifecycle.decide(run, observation)
    assert decision.state in (State.STOPPING, *FINAL)
    assert decision.action is not ExecutorAction.START
    if decision.state is State.STOPPING:
        assert decision.action is ExecutorAction.STOP


@given(runs(), st.none() | OBSERVATIONS)
def test_nothing_is_started_twice(run: RunRecord, observation: Observation | None) -> None:
    never_started = run.state == State.QUEUED or (
        run.state in (State.PENDING, State.STARTING) and run.started_at is None
    )
    assert lifecycle.decide(run, observation).action is not ExecutorAction.START or (
        observation is None and never_started
    )


@given(runs(), st.none() | OBSERVATIONS)
def test_only_stopping_runs_are_stopped(run: RunRecord, observation: Observation | None) -> None:
    assert lifecycle.decide(run, observation).action is not ExecutorAction.STOP or run.state == State.STOPPING


@given(runs(), st.none() | OBSERVATIONS)
def test_every_decision_has_a_reason_and_a_message(run: RunRecord, observation: Observation | None) -> None:
    decision = lifecycle.decide(run, observation)
    assert decision.reason
    assert decision.message
    assert "None" not in decision.message


@given(runs(), OBSERVATIONS)
def test_a_succeeded_run_is_completed_unless_it_was_stopped(run: RunRecord, observation: Observation) -> None:
    assume(run.state not in FINAL)
    completed = replace(observation, phase=Phase.SUCCEEDED, stopped=False)
    assert lifecycle.decide(run, completed).state is State.COMPLETED


@given(runs(), OBSERVATIONS)
def test_decisions_are_idempotent(run: RunRecord, observation: Observation) -> None:
    """A decision is idempotent, so that each event is written once."""
    first = lifecycle.decide(run, observation)
    stored = make(
        RunRecord,
        "r1",
        state=str(first.state),
        reason=first.reason,
        message=first.message,
        stopped_by=run.stopped_by,
    )
    second = lifecycle.decide(stored, observation)
    assert (second.state, second.reason, second.message) == (first.state, first.reason, first.message)

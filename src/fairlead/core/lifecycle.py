"""What happens next to a run: decided from what is kept, what its executor sees, and nothing else."""

from dataclasses import dataclass, replace
from enum import StrEnum

from fairlead.core import idle_culling
from fairlead.core.attempts import NO_HISTORY, AttemptHistory, NextAttempt, decide_next
from fairlead.model.observations import Observation, Phase
from fairlead.model.records import RunRecord
from fairlead.model.states import FINAL, State

FINAL_STATES = {Phase.SUCCEEDED: State.COMPLETED, Phase.FAILED: State.FAILED}
RETRYING = "Retrying"
UNSTARTED = "stopped by {by}, before {it} had started"
STOPPED = "stopped by {by}"
LOST = "it is gone without a trace: somebody or something has removed it"
CLAIMED = "has a place, and is about to start"
DEFAULT_REASONS = {
    Phase.PENDING: ("Claimed", CLAIMED),
    Phase.STARTING: ("Starting", "is being started"),
    Phase.RUNNING: ("Running", "is running"),
    Phase.DEGRADED: ("Degraded", "does not answer as it should"),
    Phase.SUCCEEDED: ("Completed", "has completed"),
    Phase.FAILED: ("Failed", "has failed"),
}
ACTIVE_STATES = {
    Phase.PENDING: State.PENDING,
    Phase.STARTING: State.STARTING,
    Phase.RUNNING: State.RUNNING,
    Phase.DEGRADED: State.DEGRADED,
}


class ExecutorAction(StrEnum):
    """What an executor is asked to do."""

    NONE = "none"
    START = "start"
    STOP = "stop"


@dataclass(frozen=True)
class Failure:
    """How a try failed that another one follows."""

    reason: str
    message: str
    retry: NextAttempt


@dataclass(frozen=True)
class Decision:
    """The state that a run comes to, with a reason to match and a sentence to read, and what is to be done."""

    state: State
    act: ExecutorAction
    reason: str
    message: str
    failure: Failure | None = None  # of the try that is over, where the run goes on with another one


def decide(run: RunRecord, seen: Observation | None, tried: AttemptHistory = NO_HISTORY) -> Decision:
    """What to do next about a run, given what its executor sees of its present try (None: nothing is there)."""
    state = State(run.state)
    if state in FINAL:
        return Decision(state, ExecutorAction.NONE, run.reason, run.message)
    if seen is not None and seen.phase in FINAL_STATES:
        return _try_again(run, _end(run, seen), tried)
    match state, seen:
        case State.STOPPING, None:
            if run.started_at is not None:
                return _describe_stopped(run)
            # What is there of it and was not seen to begin is removed first: afterwards nobody can begin it any more.
            return Decision(
                State.STOPPED, ExecutorAction.STOP, "Stopped", _describe_unstarted(run, run.stopped_by or "")
            )
        case State.STOPPING, _:
            return Decision(State.STOPPING, ExecutorAction.STOP, run.reason, run.message)
        case State.QUEUED, None:
            return Decision(State.PENDING, ExecutorAction.START, "Claimed", CLAIMED)
        case State.PENDING | State.STARTING, None if run.started_at is None:
            # The server ended between claiming and starting: nothing has begun, so starting is safe.
            return Decision(State.PENDING, ExecutorAction.START, "Claimed", CLAIMED)
        case _, None:
            return Decision(State.FAILED, ExecutorAction.NONE, "Lost", LOST)
        case State.RUNNING | State.DEGRADED, Observation(phase=Phase.STARTING) if run.action != "job":
            message = f"nothing of it answers any more: {seen.message or 'it is being started anew'}"
            return Decision(State.DEGRADED, ExecutorAction.NONE, seen.reason or "NotReady", message)
        case State.RUNNING, Observation(phase=Phase.STARTING) | Observation(phase=Phase.PENDING, reason=""):
            return Decision(State.RUNNING, ExecutorAction.NONE, run.reason, run.message)
        case _, _:
            assert seen is not None
            reason, message = (
                seen.reason or DEFAULT_REASONS[seen.phase][0],
                seen.message or DEFAULT_REASONS[seen.phase][1],
            )
            return Decision(ACTIVE_STATES[seen.phase], ExecutorAction.NONE, reason, message)


def decide_stop(run: RunRecord, by: str) -> Decision:
    """What becomes of a run that somebody stops: one that no server holds was not started, and will not be."""
    if run.server_id is None:
        return Decision(State.STOPPED, ExecutorAction.NONE, "Stopped", _describe_unstarted(run, by))
    return Decision(State.STOPPING, ExecutorAction.STOP, "StopRequested", f"{by} stops it")


def decide_idle_stop(run: RunRecord) -> Decision:
    """What becomes of a run that nobody uses."""
    return Decision(
        State.STOPPING, ExecutorAction.STOP, idle_culling.REASON, idle_culling.describe_idle(run.idle_seconds or 0)
    )


def _describe_stopped(run: RunRecord) -> Decision:
    if run.stopped_by == idle_culling.BY and run.idle_seconds is not None:
        return Decision(
            State.STOPPED, ExecutorAction.NONE, idle_culling.REASON, idle_culling.describe_idle(run.idle_seconds)
        )
    return Decision(State.STOPPED, ExecutorAction.NONE, "Stopped", STOPPED.format(by=run.stopped_by))


def _end(run: RunRecord, seen: Observation) -> Decision:
    if seen.stopped and run.stopped_by:
        return _describe_stopped(run)
    if seen.stopped and seen.phase is Phase.FAILED:
        message = "it was told to end, and nobody had asked for that here: perhaps the machine was shut down"
        return Decision(State.FAILED, ExecutorAction.NONE, "Terminated", message)
    late = f"; it had ended before {run.stopped_by} stopped it" if run.stopped_by else ""
    reason, message = seen.reason or DEFAULT_REASONS[seen.phase][0], seen.message or DEFAULT_REASONS[seen.phase][1]
    return Decision(FINAL_STATES[seen.phase], ExecutorAction.NONE, reason, message + late)


def _try_again(run: RunRecord, ended: Decision, tried: AttemptHistory) -> Decision:
    """The end of a run, or of one try of it where another one follows. What somebody has stopped is not tried again."""
    if ended.state is not State.FAILED or run.stopped_by:
        return ended
    after = decide_next(run, ended.reason, tried)
    if isinstance(after, NextAttempt):
        message = f"attempt {run.attempt} failed ({ended.reason}): {ended.message}; {after.told}"
        failure = Failure(ended.reason, ended.message, after)
        return Decision(State.QUEUED, ExecutorAction.NONE, RETRYING, message, failure)
    return replace(ended, message=f"{ended.message}; {after.told}") if after.told else ended


def _describe_unstarted(run: RunRecord, by: str) -> str:
    return UNSTARTED.format(by=by, it="it" if run.attempt == 1 else f"attempt {run.attempt}")

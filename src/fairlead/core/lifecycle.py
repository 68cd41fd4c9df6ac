"""What happens next to a run: decided from what is kept, what its executor sees, and nothing else."""

from dataclasses import dataclass
from enum import StrEnum

from fairlead.model.observations import Observation, Phase
from fairlead.model.records import RunRecord
from fairlead.model.states import FINAL, State

LAST = {Phase.SUCCEEDED: State.COMPLETED, Phase.FAILED: State.FAILED}
UNSTARTED = "stopped by {by}, before it had started"
STOPPED = "stopped by {by}"
LOST = "it is gone without a trace: somebody or something has removed it"
CLAIMED = "has a place, and is about to start"
TOLD = {
    Phase.PENDING: ("Claimed", CLAIMED),
    Phase.STARTING: ("Starting", "is being started"),
    Phase.RUNNING: ("Running", "is running"),
    Phase.DEGRADED: ("Degraded", "does not answer as it should"),
    Phase.SUCCEEDED: ("Completed", "has completed"),
    Phase.FAILED: ("Failed", "has failed"),
}
GOING = {
    Phase.PENDING: State.PENDING,
    Phase.STARTING: State.STARTING,
    Phase.RUNNING: State.RUNNING,
    Phase.DEGRADED: State.DEGRADED,
}


class Act(StrEnum):
    """What an executor is asked to do."""

    NONE = "none"
    START = "start"
    STOP = "stop"


@dataclass(frozen=True)
class Decision:
    """The state that a run comes to, with a reason to match and a sentence to read, and what is to be done."""

    state: State
    act: Act
    reason: str
    message: str


def decide(run: RunRecord, seen: Observation | None) -> Decision:
    """What to do next about a run, given what its executor sees of it (None: nothing is there)."""
    state = State(run.state)
    if state in FINAL:
        return Decision(state, Act.NONE, run.reason, run.message)
    if seen is not None and seen.phase in LAST:
        return _end(run, seen)
    match state, seen:
        case State.STOPPING, None:
            told = UNSTARTED if run.started_at is None else STOPPED
            return Decision(State.STOPPED, Act.NONE, "Stopped", told.format(by=run.stopped_by))
        case State.STOPPING, _:
            return Decision(State.STOPPING, Act.STOP, run.reason, run.message)
        case State.QUEUED, None:
            return Decision(State.PENDING, Act.START, "Claimed", CLAIMED)
        case State.PENDING | State.STARTING, None if run.started_at is None:
            # The server ended between claiming and starting: nothing has begun, so starting is safe.
            return Decision(State.PENDING, Act.START, "Claimed", CLAIMED)
        case _, None:
            return Decision(State.FAILED, Act.NONE, "Lost", LOST)
        case State.RUNNING, Observation(phase=Phase.STARTING) | Observation(phase=Phase.PENDING, reason=""):
            return Decision(State.RUNNING, Act.NONE, run.reason, run.message)
        case _, _:
            assert seen is not None
            reason, message = seen.reason or TOLD[seen.phase][0], seen.message or TOLD[seen.phase][1]
            return Decision(GOING[seen.phase], Act.NONE, reason, message)


def decide_stop(run: RunRecord, by: str) -> Decision:
    """What becomes of a run that somebody stops: one that no server holds was not started, and will not be."""
    if run.held_by is None:
        return Decision(State.STOPPED, Act.NONE, "Stopped", UNSTARTED.format(by=by))
    return Decision(State.STOPPING, Act.STOP, "StopRequested", f"{by} stops it")


def _end(run: RunRecord, seen: Observation) -> Decision:
    if seen.stopped and run.stopped_by:
        return Decision(State.STOPPED, Act.NONE, "Stopped", STOPPED.format(by=run.stopped_by))
    if seen.stopped and seen.phase is Phase.FAILED:
        message = "it was told to end, and nobody had asked for that here: perhaps the machine was shut down"
        return Decision(State.FAILED, Act.NONE, "Terminated", message)
    late = f"; it had ended before {run.stopped_by} stopped it" if run.stopped_by else ""
    reason, message = seen.reason or TOLD[seen.phase][0], seen.message or TOLD[seen.phase][1]
    return Decision(LAST[seen.phase], Act.NONE, reason, message + late)

"""The state machine of runs: decides the next state from the stored run and its executor's observation.

Also decides whether a run is idle, and parses the outcomes that runs write, which are untrusted input.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from statistics import fmean
from typing import Any

from fairlead.lifecycle.attempts import NO_HISTORY, AttemptHistory, NextAttempt, decide_next
from fairlead.model.parsing import remove_control_sequences
from fairlead.model.quantities import Duration
from fairlead.model.records import RunRecord
from fairlead.model.runs import FINAL, Observation, Phase, State

STOPPED_BY, IDLE_REASON = "fairlead", "Idle"  # `stopped_by` and reason of runs that were stopped because they were idle
BUSY_CORES = 0.05  # even idle notebook servers use a little CPU
RECENT = timedelta(minutes=1)
MIN_IDLE_TIMEOUT = Duration(300)  # the last use is only stored once per minute

FINAL_STATES = {Phase.SUCCEEDED: State.COMPLETED, Phase.FAILED: State.FAILED}
RETRYING = "Retrying"
STOPPED_BEFORE_START = "stopped by {by} before {it} started"
STOPPED = "stopped by {by}"
LOST = "disappeared: it was removed by something other than Fairlead"
CLAIMED = "scheduled, starting"
DEFAULT_REASONS = {
    Phase.PENDING: ("Claimed", CLAIMED),
    Phase.STARTING: ("Starting", "starting"),
    Phase.RUNNING: ("Running", "running"),
    Phase.DEGRADED: ("Degraded", "not responding correctly"),
    Phase.SUCCEEDED: ("Completed", "completed"),
    Phase.FAILED: ("Failed", "failed"),
}
ACTIVE_STATES = {
    Phase.PENDING: State.PENDING,
    Phase.STARTING: State.STARTING,
    Phase.RUNNING: State.RUNNING,
    Phase.DEGRADED: State.DEGRADED,
}


def is_unused(idle_seconds: int, last_used_at: datetime | None, started_at: datetime | None, now: datetime) -> bool:
    """Whether the URL of a started run has not been used for at least `idle_seconds`."""
    # A workspace that is still waiting for a node is not idle.
    if started_at is None:
        return False
    # Any use before the start belongs to an earlier attempt.
    return now - max(last_used_at or started_at, started_at) >= timedelta(seconds=idle_seconds)


def is_idle(
    idle_seconds: int,
    last_used_at: datetime | None,
    started_at: datetime | None,
    samples: Sequence[Mapping[str, Any]],
    now: datetime,
) -> bool:
    """Whether a run's URL has been unused for `idle_seconds` and its CPU usage was below BUSY_CORES in that time.

    Both the average and the most recent CPU usage must be below it. If no sample is recent enough, the last one is
    used. Without samples, only the URL is considered.
    """
    if not is_unused(idle_seconds, last_used_at, started_at, now):
        return False
    since = now - timedelta(seconds=idle_seconds)
    within = [sample for sample in samples if sample["at"] > since] or list(samples[-1:])
    # The average over the whole period ignores short bursts. The recent average detects work that has just started.
    recent = [sample for sample in within if sample["at"] > now - RECENT] or within[-1:]
    return all(fmean(sample.get("cpu", 0.0) for sample in period) < BUSY_CORES for period in (within, recent) if period)


def describe_idle(idle_seconds: int) -> str:
    """The message of a run that was stopped because it was idle."""
    return f"stopped after {Duration(idle_seconds)} without use"


class ExecutorAction(StrEnum):
    """An action for the executor of a run."""

    NONE = "none"
    START = "start"
    STOP = "stop"


@dataclass(frozen=True)
class AttemptFailure:
    """The failure of an attempt that is followed by another attempt."""

    reason: str
    message: str
    retry: NextAttempt


@dataclass(frozen=True)
class Decision:
    """The next state of a run with its reason and message, and the action for its executor."""

    state: State
    action: ExecutorAction
    reason: str
    message: str
    failure: AttemptFailure | None = None  # why the last attempt failed, if another one follows


def decide(run: RunRecord, observation: Observation | None, history: AttemptHistory = NO_HISTORY) -> Decision:
    """Decide the next state of a run. `observation` is None if its executor does not know the current attempt."""
    state = State(run.state)
    if state in FINAL:
        return Decision(state, ExecutorAction.NONE, run.reason, run.message)
    # This comes before the state checks, so that a run that ended while it was being stopped keeps its result.
    if observation is not None and observation.phase in FINAL_STATES:
        return _retry(run, _end(run, observation), history)
    match state, observation:
        case State.STOPPING, None:
            if run.started_at is not None:
                return _describe_stopped(run)
            # The run's objects may exist without having started. Stopping removes them, so they cannot start later.
            return Decision(
                State.STOPPED, ExecutorAction.STOP, "Stopped", _describe_unstarted(run, run.stopped_by or "")
            )
        case State.STOPPING, _:
            # Repeat the stop until the executor reports the end: the server may have been killed before the first one.
            return Decision(State.STOPPING, ExecutorAction.STOP, run.reason, run.message)
        case State.QUEUED, None:
            return Decision(State.PENDING, ExecutorAction.START, "Claimed", CLAIMED)
        case State.PENDING | State.STARTING, None if run.started_at is None:
            # The server stopped after claiming the run and before starting it, so starting it now is safe.
            return Decision(State.PENDING, ExecutorAction.START, "Claimed", CLAIMED)
        case _, None:
            # The run was started before, but its executor no longer knows it. Starting it again could run it twice.
            return Decision(State.FAILED, ExecutorAction.NONE, "Lost", LOST)
        case State.RUNNING | State.DEGRADED, Observation(phase=Phase.STARTING) if run.action != "job":
            # The served run was available before, and `starting` would hide that it no longer is.
            message = remove_control_sequences(f"no longer responding: {observation.message or 'restarting'}")
            return Decision(State.DEGRADED, ExecutorAction.NONE, observation.reason or "NotReady", message)
        case State.RUNNING, Observation(phase=Phase.STARTING) | Observation(phase=Phase.PENDING, reason=""):
            # A new pod that is about to be scheduled or started does not change the state. An eviction does: it
            # has a reason.
            return Decision(State.RUNNING, ExecutorAction.NONE, run.reason, run.message)
        case _, _:
            # Narrows the type: the cases above cover None.
            assert observation is not None
            reason, message = _reason_of(observation)
            return Decision(ACTIVE_STATES[observation.phase], ExecutorAction.NONE, reason, message)


def decide_stop(run: RunRecord, by: str) -> Decision:
    """Decide the next state of a run that a user stops. A run without a server has not started."""
    if run.server_id is None:
        return Decision(State.STOPPED, ExecutorAction.NONE, "Stopped", _describe_unstarted(run, by))
    return Decision(State.STOPPING, ExecutorAction.STOP, "StopRequested", f"being stopped by {by}")


def decide_idle_stop(run: RunRecord) -> Decision:
    """Decide the next state of an idle run."""
    return Decision(State.STOPPING, ExecutorAction.STOP, IDLE_REASON, describe_idle(run.idle_seconds or 0))


def _describe_stopped(run: RunRecord) -> Decision:
    if run.stopped_by == STOPPED_BY and run.idle_seconds is not None:
        return Decision(State.STOPPED, ExecutorAction.NONE, IDLE_REASON, describe_idle(run.idle_seconds))
    return Decision(State.STOPPED, ExecutorAction.NONE, "Stopped", STOPPED.format(by=run.stopped_by))


def _end(run: RunRecord, observation: Observation) -> Decision:
    # The exit code of a stopped program does not indicate a failure.
    if observation.stopped and run.stopped_by:
        return _describe_stopped(run)
    if observation.stopped and observation.phase is Phase.FAILED:
        message = "terminated from outside Fairlead; perhaps the machine was shut down"
        return Decision(State.FAILED, ExecutorAction.NONE, "Terminated", message)
    late = f"; it ended before {run.stopped_by} stopped it" if run.stopped_by else ""
    reason, message = _reason_of(observation)
    return Decision(FINAL_STATES[observation.phase], ExecutorAction.NONE, reason, message + late)


def _reason_of(observation: Observation) -> tuple[str, str]:
    reason, message = DEFAULT_REASONS[observation.phase]
    # The message may contain output of the run, and is printed on the terminals of other users.
    return observation.reason or reason, remove_control_sequences(observation.message) or message


def _retry(run: RunRecord, ended: Decision, history: AttemptHistory) -> Decision:
    """The end of a run, or the queued state if another attempt follows. Stopped runs are not retried."""
    # A user who stopped the run does not expect it to start again.
    if ended.state is not State.FAILED or run.stopped_by:
        return ended
    following = decide_next(run, ended.reason, history)
    if isinstance(following, NextAttempt):
        message = f"attempt {run.attempt} failed ({ended.reason}): {ended.message}; {following.message}"
        failure = AttemptFailure(ended.reason, ended.message, following)
        return Decision(State.QUEUED, ExecutorAction.NONE, RETRYING, message, failure)
    return replace(ended, message=f"{ended.message}; {following.message}") if following.message else ended


def _describe_unstarted(run: RunRecord, by: str) -> str:
    return STOPPED_BEFORE_START.format(by=by, it="it" if run.attempt == 1 else f"attempt {run.attempt}")

"""Run states."""

from enum import StrEnum


class State(StrEnum):
    """The states that a run can have. The last three are final."""

    QUEUED = "queued"
    PENDING = "pending"
    STARTING = "starting"
    RUNNING = "running"
    DEGRADED = "degraded"
    STOPPING = "stopping"
    COMPLETED = "completed"
    FAILED = "failed"
    STOPPED = "stopped"


FINAL = frozenset({State.COMPLETED, State.FAILED, State.STOPPED})

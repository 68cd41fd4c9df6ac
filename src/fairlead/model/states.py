"""States of runs."""

from enum import StrEnum


class State(StrEnum):
    """The states of a run. The last three are final."""

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

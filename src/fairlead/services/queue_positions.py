"""Positions of runs in the queues of their clusters."""

from functools import cache

from fairlead.errors import Unavailable
from fairlead.lifecycle.attempts import execution_of
from fairlead.model.nodes import QueuePosition
from fairlead.model.records import RunRecord
from fairlead.model.runs import State
from fairlead.planning.queue_messages import describe_queue_position
from fairlead.ports import Executor
from fairlead.services.unit_of_work import UnitOfWork


def find_queue_position(executor: Executor | None, run: RunRecord) -> QueuePosition | None:
    """Return a run's position in its cluster's queue; None if it is unknown or the run is not in a queue."""
    if executor is None or run.server_id is None or run.state != State.PENDING:
        return None
    try:
        observation = executor.observe(execution_of(run.id, run.attempt))
    except Unavailable:  # the rest of the explanation does not need the cluster
        return None
    if observation is None or observation.queue_position is None:
        return None
    return observation.queue_position()


def describe(unit: UnitOfWork, queue_position: QueuePosition | None) -> list[str]:
    """Describe a queue position in sentences, with the names of visible runs only."""
    # A queue may contain thousands of runs from a few projects.
    sees = cache(lambda project: unit.permissions.sees(f"project/{project}"))
    return [] if queue_position is None else list(describe_queue_position(queue_position, sees))

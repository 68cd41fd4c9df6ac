"""Where runs stand in the queues of their clusters, for whoever asks why they wait."""

from functools import cache

from fairlead.core.attempts import execution_of
from fairlead.core.descriptions.queues import describe_queue_position
from fairlead.errors import Unavailable
from fairlead.model.queues import QueuePosition
from fairlead.model.records import RunRecord
from fairlead.model.states import State
from fairlead.ports import Executor
from fairlead.services.unit_of_work import UnitOfWork


def find_queue_position(executor: Executor | None, run: RunRecord) -> QueuePosition | None:
    """Where a run stands in a queue of its cluster at this moment; None where it is in none, or nobody can tell."""
    if executor is None or run.server_id is None or run.state != State.PENDING:
        return None
    try:
        seen = executor.observe(execution_of(run.id, run.attempt))
    except Unavailable:
        return None
    return None if seen is None or seen.queue_position is None else seen.queue_position()


def tell(unit: UnitOfWork, queue_position: QueuePosition | None) -> list[str]:
    """The same in sentences, with the names of runs that the caller may see."""
    sees = cache(lambda project: unit.permissions.sees(f"project/{project}"))
    return [] if queue_position is None else list(describe_queue_position(queue_position, sees))

"""Where runs stand in the queues of their clusters, for whoever asks why they wait."""

from functools import cache

from fairlead.core.attempts import execution_of
from fairlead.core.descriptions.queues import describe_standing
from fairlead.errors import Unavailable
from fairlead.model.queues import Standing
from fairlead.model.records import RunRecord
from fairlead.model.states import State
from fairlead.ports import Executor
from fairlead.services.unit_of_work import UnitOfWork


def find_standing(executor: Executor | None, run: RunRecord) -> Standing | None:
    """Where a run stands in a queue of its cluster at this moment; None where it is in none, or nobody can tell."""
    if executor is None or run.server_id is None or run.state != State.PENDING:
        return None
    try:
        seen = executor.observe(execution_of(run.id, run.attempt))
    except Unavailable:
        return None
    return None if seen is None or seen.standing is None else seen.standing()


def tell(unit: UnitOfWork, standing: Standing | None) -> list[str]:
    """The same in sentences, with the names of runs that the caller may see."""
    sees = cache(lambda project: unit.permissions.sees(f"project/{project}"))
    return [] if standing is None else list(describe_standing(standing, sees))

"""A run's position in one of its cluster's queues."""

from typing import cast

import pytest

from fairlead.errors import Unavailable
from fairlead.model.nodes import QueuePosition
from fairlead.model.runs import Observation, Phase, State
from fairlead.ports import Executor
from fairlead.services.runs.fit import find_queue_position
from tests.lifecycle.test_lifecycle import make_run

QUEUED = QueuePosition(pool="gpus", pending=True)


class FakeExecutor:
    """An executor that returns the same observation for every run."""

    def __init__(self, observed: Observation | Unavailable | None) -> None:
        self.observed = observed

    def observe(self, _: str) -> Observation | None:
        if isinstance(self.observed, Unavailable):
            raise self.observed
        return self.observed


@pytest.mark.parametrize(
    ("observed", "expected"),
    [
        (Observation(Phase.PENDING, queue_position=lambda: QUEUED), QUEUED),
        (Observation(Phase.PENDING), None),
        (None, None),
        (Unavailable("the cluster does not answer"), None),
    ],
)
def test_pending_run_has_the_position_that_its_cluster_reports(
    observed: Observation | Unavailable | None, expected: QueuePosition | None
) -> None:
    run = make_run(State.PENDING, server_id="server-1")
    assert find_queue_position(cast(Executor, FakeExecutor(observed)), run) == expected


@pytest.mark.parametrize("state", [State.QUEUED, State.RUNNING, State.COMPLETED])
def test_run_that_is_not_pending_has_no_position(state: State) -> None:
    executor = cast(Executor, FakeExecutor(Observation(Phase.PENDING, queue_position=lambda: QUEUED)))
    assert find_queue_position(executor, make_run(state, server_id="server-1")) is None
    assert find_queue_position(executor, make_run(State.PENDING, server_id=None)) is None
    assert find_queue_position(None, make_run(State.PENDING, server_id="server-1")) is None

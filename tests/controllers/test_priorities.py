"""Queue order: priority, then age."""

import pytest

from tests.controllers.test_queue_order import advance, states
from tests.services.executing import HOME, Platform


@pytest.mark.every_store
def test_higher_priority_is_admitted_first_and_then_the_older_run(platform: Platform) -> None:
    platform.world.put_policy(HOME, quota={"runs": 1})
    running = platform.submit()
    controller = platform.control()
    controller.sync(set())
    plain, low, high, later = (platform.submit(priority=priority) for priority in (0, -5, 7, 7))
    controller.sync(set())
    order = []
    for _ in range(4):
        platform.executor.end(running.id)
        controller.sync({running.id})
        (running,) = (run for run in (plain, low, high, later) if platform.state(run.id)[0] == "pending")
        order.append(running)
    assert order == [high, later, plain, low]


def test_higher_priority_is_admitted_first_on_a_full_machine(platform: Platform) -> None:
    running = platform.submit(resources={"cpu": 8})
    controller = platform.control()
    controller.sync(set())
    plain, high = platform.submit(resources={"cpu": 8}), platform.submit(resources={"cpu": 8}, priority=1)
    advance(platform)
    controller.sync(set())
    platform.executor.end(running.id)
    advance(platform)
    controller.sync({running.id})
    assert states(platform, plain, high) == ["queued", "pending"]

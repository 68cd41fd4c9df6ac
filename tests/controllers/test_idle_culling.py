"""Idle culling of workspaces."""

from dataclasses import replace
from typing import Any

import pytest

from fairlead.controllers.runs import RunController
from fairlead.lifecycle import lifecycle
from fairlead.model.runs import Observation, Phase
from tests.services.executing import Platform

NOTEBOOK = {"name": "notebook", "command": ["sleep", "infinity"], "port": 8888}


def start(platform: Platform, **requested: Any) -> str:
    """Start a workspace, and return its run ID."""
    platform.executor.cores = 0.0
    run = platform.submit(function=NOTEBOOK, action="workspace", **requested)
    controller = platform.control()
    controller.sync(set())
    platform.executor.runs[run.id].observation = Observation(Phase.RUNNING, started_at=platform.world.clock())
    controller.sync({run.id})
    return run.id


def advance(platform: Platform, controller: RunController, minutes: float) -> None:
    """Advance the clock, then sync."""
    platform.world.clock.pass_by(minutes=minutes)
    controller.sync(set())


def use(platform: Platform, run_id: str) -> None:
    """Record that the workspace's URL was used."""
    with platform.world.store.recording() as tx:
        run = platform.run(run_id)
        tx.save(replace(run, last_used_at=platform.world.clock(), revision=run.revision + 1))


def test_idle_run_is_stopped_with_the_reason(platform: Platform) -> None:
    controller, run_id = platform.control(), start(platform, idle_timeout="30m")
    advance(platform, controller, 29)
    assert platform.state(run_id)[0] == "running"
    use(platform, run_id)
    advance(platform, controller, 29)
    assert platform.state(run_id)[0] == "running"
    advance(platform, controller, 2)
    assert platform.state(run_id) == ("stopping", "Idle")
    platform.executor.runs[run_id].observation = Observation(Phase.FAILED, "Stopped", stopped=True)
    platform.control().sync({run_id})
    stopped = platform.run(run_id)
    assert (stopped.state, stopped.reason, stopped.message) == ("stopped", "Idle", "stopped after 30m without use")
    assert stopped.stopped_by == lifecycle.STOPPED_BY


def test_server_downtime_does_not_count_as_idle_time(platform: Platform) -> None:
    run_id = start(platform, idle_timeout="30m")
    platform.world.clock.pass_by(hours=2)
    controller = platform.control()
    controller.sync(set())
    assert platform.state(run_id)[0] == "running"
    platform.world.clock.pass_by(minutes=31)
    controller.sync(set())
    assert platform.state(run_id) == ("stopping", "Idle")


def test_unreadable_usage_does_not_block_other_runs(platform: Platform, monkeypatch: pytest.MonkeyPatch) -> None:
    unreadable, idle = (start(platform, idle_timeout="30m") for _ in range(2))
    controller, read_usage = platform.control(), platform.executor.read_usage
    monkeypatch.setattr(
        platform.executor, "read_usage", lambda run_id: read_usage(run_id) if run_id != unreadable else 1 / 0
    )
    platform.world.clock.pass_by(minutes=31)
    controller.sync(set())
    assert [platform.state(run_id)[0] for run_id in (unreadable, idle)] == ["running", "stopping"]


def test_run_without_idle_timeout_is_not_stopped(platform: Platform) -> None:
    controller, run_id = platform.control(), start(platform)
    advance(platform, controller, 60 * 24 * 30)
    assert platform.state(run_id)[0] == "running"

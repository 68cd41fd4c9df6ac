"""Tries of runs when servers are killed, and by several servers: none is lost, and none is made twice."""

from typing import Any

import pytest

from fairlead.controllers import run_state
from fairlead.errors import Unavailable
from fairlead.model.observations import Phase
from tests.contracts.executors import MemoryExecutor
from tests.controllers.servers import Servers
from tests.controllers.test_attempts import begin, fail, pass_by, records
from tests.controllers.test_retention import make_retention
from tests.services.executing import FAR, SERVER, Platform


class Killed(BaseException):
    """The server was killed."""


def kill(*_args: Any, **_more: Any) -> None:
    """A crash in place of a step."""
    raise Killed


@pytest.mark.every_store
@pytest.mark.parametrize("step", ["load_attempt_history", "save", "clean_up"])
def test_server_killed_at_the_end_of_an_attempt_loses_and_repeats_none(
    platform: Platform, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    controller = platform.control()
    run = begin(platform, controller, retries=2)
    fail(platform, run, "NodeLost")
    with monkeypatch.context() as killing:
        killing.setattr(platform.executor if step == "clean_up" else controller.state_writer, step, kill)
        with pytest.raises(Killed):
            controller.reconcile(run)
    after = platform.control()
    for _ in range(3):
        after.sync({run})
    platform.executor.go(f"{run}-2")
    after.sync({run})
    again = platform.run(run)
    assert (again.state, again.attempt) == ("running", 2)
    assert [attempt.id for attempt in records(platform, run)] == [run]
    assert platform.events(run).count(("queued", "Retrying")) == 1
    assert platform.executor.count("start", f"{run}-2") == 1
    make_retention(platform).sweep()
    assert platform.executor.count("clean_up", run) >= 1


def test_attempt_record_and_next_state_are_saved_in_one_transaction(
    platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    controller = platform.control()
    run = begin(platform, controller, retries=1)
    before = platform.run(run)
    fail(platform, run, "NodeLost")
    with monkeypatch.context() as killing:
        killing.setattr(run_state, "_record_attempt", kill)
        with pytest.raises(Killed):
            controller.reconcile(run)
    assert platform.run(run) == before
    assert records(platform, run) == []


@pytest.mark.parametrize("step", ["claimed", "loaded", "started"])
def test_server_killed_while_it_starts_an_attempt_starts_it_once(
    platform: Platform, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    controller = platform.control()
    run = begin(platform, controller, retries=1)
    fail(platform, run, "NodeLost")
    controller.sync({run})
    start = platform.executor.start

    def start_and_die(work: Any) -> None:
        start(work)
        raise Killed

    with monkeypatch.context() as killing:
        if step == "claimed":
            killing.setattr(platform.executor, "observe", kill)
        elif step == "loaded":
            killing.setattr(platform.executor, "start", kill)
        else:
            killing.setattr(platform.executor, "start", start_and_die)
        with pytest.raises(Killed):
            controller.sync({run})
    assert platform.state(run) == ("pending", "Claimed")
    after = platform.control()
    after.sync(set())
    after.sync({run})
    assert platform.state(run)[0] == "starting"
    assert sorted(platform.executor.list_runs()) == [run, f"{run}-2"]
    assert platform.run(run).attempt == 2


def test_unavailable_executor_does_not_fail_the_attempt(platform: Platform) -> None:
    controller = platform.control()
    run = begin(platform, controller, retries=1)
    platform.executor.broken[run] = Unavailable("no answer")
    pass_by(platform, controller)
    assert (platform.run(run).state, platform.run(run).attempt) == ("running", 1)


def test_next_attempt_can_run_on_another_server(platform: Platform) -> None:
    controller, other = platform.control(), MemoryExecutor()
    run = begin(platform, controller, retries=1)
    fail(platform, run)
    controller.sync({run})
    pass_by(platform, platform.control("s2", other), 20)
    again = platform.run(run)
    assert (again.server_id, again.attempt, other.list_runs()) == ("s2", 2, [f"{run}-2"])
    assert [attempt.server_id for attempt in records(platform, run)] == [SERVER]


# Clusters


@pytest.mark.every_store
def test_cluster_run_is_retried_once_by_any_server(servers: Servers) -> None:
    platform = servers.platform
    run = platform.submit(FAR, retries=2)
    servers.look("one", "two")
    for number, reason in ((1, "ExitCode"), (2, "NodeLost")):
        execution = run.id if number == 1 else f"{run.id}-{number}"
        servers.executors["one"].end(execution, Phase.FAILED, reason=reason, message="bad")
        for controller in servers.controllers.values():
            controller.sync({run.id})
        for _ in range(9):
            servers.look("two", "one")
    found = platform.run(run.id)
    assert (found.attempt, found.state) == (3, "starting")
    assert sorted(servers.runs) == [run.id, f"{run.id}-2", f"{run.id}-3"]
    assert [attempt.reason for attempt in records(platform, run.id)] == ["ExitCode", "NodeLost"]
    started = [execution for on in servers.executors.values() for call, execution in on.calls if call == "start"]
    assert sorted(started) == sorted(servers.runs)


def test_backoff_and_quota_apply_to_retries_on_a_cluster(servers: Servers) -> None:
    platform = servers.platform
    platform.world.put_policy(FAR, quota={"runs": 1})
    run, behind = platform.submit(FAR, retries=1), platform.submit(FAR)
    servers.look("one")
    servers.executors["one"].end(run.id, Phase.FAILED, reason="ExitCode", message="bad")
    servers.controllers["one"].sync({run.id})
    servers.controllers["one"].sync({run.id})
    assert platform.state(run.id) == ("queued", "Retrying")
    assert platform.state(behind.id)[0] == "pending"
    for _ in range(4):
        servers.look("one")
    assert platform.state(run.id) == ("queued", "QuotaExceeded")
    servers.executors["one"].end(behind.id)
    servers.controllers["one"].sync({behind.id})
    assert platform.state(run.id)[0] == "pending"

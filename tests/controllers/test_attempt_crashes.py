"""Run attempts while servers are killed, and on several servers: no attempt is lost or started twice."""

from typing import Any

import pytest

from fairlead.controllers import run_state
from fairlead.errors import Unavailable
from fairlead.model.runs import Phase
from tests.contracts.executors import MemoryExecutor
from tests.controllers.servers import Servers
from tests.controllers.test_attempts import advance, attempt_records, fail_attempt, start_run
from tests.controllers.test_retention import make_retention
from tests.services.executing import FAR, SERVER, Platform


class Killed(BaseException):
    """The server was killed."""


def kill(*_args: Any, **_more: Any) -> None:
    """Replaces a step with a crash."""
    raise Killed


@pytest.mark.every_store
@pytest.mark.parametrize("step", ["load_attempt_history", "save", "clean_up"])
def test_server_killed_at_the_end_of_an_attempt_loses_and_repeats_none(
    platform: Platform, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    controller = platform.control()
    run = start_run(platform, controller, retries=2)
    fail_attempt(platform, run, "NodeLost")
    with monkeypatch.context() as patched:
        patched.setattr(platform.executor if step == "clean_up" else controller.state_writer, step, kill)
        with pytest.raises(Killed):
            controller.reconcile(run)
    restarted = platform.control()
    for _ in range(3):
        restarted.sync({run})
    platform.executor.set_running(f"{run}-2")
    restarted.sync({run})
    retried = platform.run(run)
    assert (retried.state, retried.attempt) == ("running", 2)
    assert [attempt.id for attempt in attempt_records(platform, run)] == [run]
    assert platform.events(run).count(("queued", "Retrying")) == 1
    assert platform.executor.count("start", f"{run}-2") == 1
    make_retention(platform).sweep()
    assert platform.executor.count("clean_up", run) >= 1


def test_attempt_record_and_next_state_are_saved_in_one_transaction(
    platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    controller = platform.control()
    run = start_run(platform, controller, retries=1)
    before = platform.run(run)
    fail_attempt(platform, run, "NodeLost")
    with monkeypatch.context() as patched:
        patched.setattr(run_state, "_record_attempt", kill)
        with pytest.raises(Killed):
            controller.reconcile(run)
    assert platform.run(run) == before
    assert attempt_records(platform, run) == []


@pytest.mark.parametrize("step", ["claimed", "loaded", "started"])
def test_server_killed_while_it_starts_an_attempt_starts_it_once(
    platform: Platform, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    controller = platform.control()
    run = start_run(platform, controller, retries=1)
    fail_attempt(platform, run, "NodeLost")
    controller.sync({run})
    start = platform.executor.start

    def start_and_crash(launch: Any) -> None:
        start(launch)
        raise Killed

    with monkeypatch.context() as patched:
        if step == "claimed":
            patched.setattr(platform.executor, "observe", kill)
        elif step == "loaded":
            patched.setattr(platform.executor, "start", kill)
        else:
            patched.setattr(platform.executor, "start", start_and_crash)
        with pytest.raises(Killed):
            controller.sync({run})
    assert platform.state(run) == ("pending", "Claimed")
    restarted = platform.control()
    restarted.sync(set())
    restarted.sync({run})
    assert platform.state(run)[0] == "starting"
    assert sorted(platform.executor.list_runs()) == [run, f"{run}-2"]
    assert platform.run(run).attempt == 2


def test_unavailable_executor_does_not_fail_the_attempt(platform: Platform) -> None:
    controller = platform.control()
    run = start_run(platform, controller, retries=1)
    platform.executor.observe_errors[run] = Unavailable("no answer")
    advance(platform, controller)
    assert (platform.run(run).state, platform.run(run).attempt) == ("running", 1)


def test_next_attempt_can_run_on_another_server(platform: Platform) -> None:
    controller, other = platform.control(), MemoryExecutor()
    run = start_run(platform, controller, retries=1)
    fail_attempt(platform, run)
    controller.sync({run})
    advance(platform, platform.control("s2", other), 20)
    retried = platform.run(run)
    assert (retried.server_id, retried.attempt, other.list_runs()) == ("s2", 2, [f"{run}-2"])
    assert [attempt.server_id for attempt in attempt_records(platform, run)] == [SERVER]


# Clusters


@pytest.mark.every_store
def test_cluster_run_is_retried_once_by_any_server(servers: Servers) -> None:
    platform = servers.platform
    run = platform.submit(FAR, retries=2)
    servers.advance_and_sync("one", "two")
    for number, reason in ((1, "ExitCode"), (2, "NodeLost")):
        execution = run.id if number == 1 else f"{run.id}-{number}"
        servers.executors["one"].end(execution, Phase.FAILED, reason=reason, message="bad")
        for controller in servers.controllers.values():
            controller.sync({run.id})
        for _ in range(9):
            servers.advance_and_sync("two", "one")
    stored = platform.run(run.id)
    assert (stored.attempt, stored.state) == (3, "starting")
    assert sorted(servers.runs) == [run.id, f"{run.id}-2", f"{run.id}-3"]
    assert [attempt.reason for attempt in attempt_records(platform, run.id)] == ["ExitCode", "NodeLost"]
    started = [
        execution for executor in servers.executors.values() for call, execution in executor.calls if call == "start"
    ]
    assert sorted(started) == sorted(servers.runs)


def test_backoff_and_quota_apply_to_retries_on_a_cluster(servers: Servers) -> None:
    platform = servers.platform
    platform.world.put_policy(FAR, quota={"runs": 1})
    run, behind = platform.submit(FAR, retries=1), platform.submit(FAR)
    servers.advance_and_sync("one")
    servers.executors["one"].end(run.id, Phase.FAILED, reason="ExitCode", message="bad")
    servers.controllers["one"].sync({run.id})
    servers.controllers["one"].sync({run.id})
    assert platform.state(run.id) == ("queued", "Retrying")
    assert platform.state(behind.id)[0] == "pending"
    for _ in range(4):
        servers.advance_and_sync("one")
    assert platform.state(run.id) == ("queued", "QuotaExceeded")
    servers.executors["one"].end(behind.id)
    servers.controllers["one"].sync({behind.id})
    assert platform.state(run.id)[0] == "pending"

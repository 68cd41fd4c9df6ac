"""Objects of ended runs are removed whenever they appear. Failed removals are retried."""

import pytest

from fairlead.errors import Unavailable
from fairlead.model.columns import Condition
from fairlead.model.records import RunRecord
from fairlead.model.runs import Phase
from tests.contracts.executors import MemoryExecutor
from tests.controllers.servers import Servers
from tests.services.executing import FAR, Platform


def stop_before_observation(servers: Servers, platform: Platform) -> RunRecord:
    """A stopped run whose objects the server never observed, as if the response to their creation had been lost."""
    run = platform.submit(FAR)
    servers.advance_and_sync("one")
    hidden = servers.runs.pop(run.id)
    platform.stop(run.id)
    servers.controllers["one"].sync({run.id})
    assert platform.state(run.id) == ("stopped", "Stopped")
    servers.runs[run.id] = hidden
    return run


def fail_first(monkeypatch: pytest.MonkeyPatch, executor: MemoryExecutor, name: str, times: int) -> None:
    """Make the first calls to a method fail."""
    failures, method = [Unavailable("not now")] * times, getattr(executor, name)

    def call(run_id: str) -> None:
        if failures:
            raise failures.pop()
        method(run_id)

    monkeypatch.setattr(executor, name, call)


def test_objects_that_appear_after_their_run_was_stopped_are_removed(servers: Servers, platform: Platform) -> None:
    run, executor = stop_before_observation(servers, platform), servers.executors["one"]
    executor.set_running(run.id)
    before = executor.calls.copy()
    servers.controllers["one"].sync({run.id})
    assert executor.calls[len(before) :] == [("stop", run.id), ("clean_up", run.id)]
    assert platform.state(run.id) == ("stopped", "Stopped")


def test_server_does_not_remove_objects_of_runs_that_another_server_owns(servers: Servers, platform: Platform) -> None:
    run = stop_before_observation(servers, platform)
    servers.executors["one"].set_running(run.id)
    servers.controllers["two"].sync({run.id})
    assert servers.executors["two"].calls == []


def test_failed_removal_is_repeated_until_it_succeeds(
    servers: Servers, platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, executor = stop_before_observation(servers, platform), servers.executors["one"]
    fail_first(monkeypatch, executor, "stop", times=3)
    executor.set_running(run.id)
    servers.controllers["one"].sync({run.id})
    for _ in range(3):
        assert executor.count("stop", run.id) == 1  # the call made before its objects appeared
        servers.advance_and_sync("one")
    assert executor.count("stop", run.id) == 2


def test_failed_clean_up_of_every_attempt_is_repeated_later(
    servers: Servers, platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, executor = platform.submit(FAR, retries=1), servers.executors["one"]
    servers.advance_and_sync("one")
    cleaned_up: list[str] = []
    failing = True

    def clean_up(execution: str) -> None:
        if failing:
            raise Unavailable("not now")
        cleaned_up.append(execution)

    monkeypatch.setattr(executor, "clean_up", clean_up)
    for execution in (run.id, f"{run.id}-2"):
        executor.end(execution, Phase.FAILED, reason="NodeLost", message="gone")
        servers.controllers["one"].sync({run.id})
        servers.controllers["one"].sync({run.id})
    assert platform.state(run.id) == ("failed", "NodeLost")
    failing = False
    servers.advance_and_sync("one")
    servers.advance_and_sync("one")
    assert cleaned_up == [run.id, f"{run.id}-2"]


def test_failed_removal_of_a_deleted_run_is_repeated_later(
    servers: Servers, platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, executor = platform.submit(FAR), servers.executors["one"]
    servers.advance_and_sync("one")
    executor.end(run.id)
    servers.controllers["one"].sync({run.id})
    platform.world.services.runs.delete(platform.world.root, run.id)
    fail_first(monkeypatch, executor, "delete_run", times=2)
    servers.controllers["one"].sync({run.id})
    assert run.id in servers.runs
    servers.advance_and_sync("one")
    servers.advance_and_sync("one")
    assert run.id not in servers.runs


def test_deletion_is_repeated_until_the_attempt_has_ended(servers: Servers, platform: Platform) -> None:
    run, executor = platform.submit(FAR), servers.executors["one"]
    servers.advance_and_sync("one")
    executor.set_running(run.id)
    with platform.world.store.recording() as tx:
        tx.remove_all(RunRecord, Condition("id", "=", run.id))
    servers.controllers["one"].sync({run.id})
    assert executor.list_runs() == [run.id]
    executor.end(run.id, Phase.SUCCEEDED)
    servers.advance_and_sync("one")
    assert executor.list_runs() == []

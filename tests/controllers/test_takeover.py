"""Ownership of runs on shared clusters: one server per run, and takeover if its heartbeat expires."""

from datetime import timedelta

import pytest

from fairlead.controllers.run_state import LEASE
from fairlead.errors import Unavailable
from fairlead.model.runs import Phase
from tests.controllers.servers import Servers
from tests.services.executing import FAR, HOME, Platform

LONGER_THAN_LEASE = LEASE + timedelta(seconds=10)


def test_one_server_claims_a_run_and_starts_it_once(servers: Servers, platform: Platform) -> None:
    run = platform.submit(FAR)
    servers.advance_and_sync("two", "one", "two")
    assert (platform.run(run.id).server_id, servers.count_starts(run)) == ("two", 1)
    servers.executors["one"].set_running(run.id)
    servers.controllers["one"].sync({run.id})  # it observes the same cluster, but does not own the run
    assert platform.state(run.id)[0] == "pending"
    servers.controllers["two"].sync({run.id})
    assert platform.state(run.id)[0] == "running"


@pytest.mark.every_store
def test_runs_of_a_silent_server_are_taken_over(servers: Servers, platform: Platform) -> None:
    run = platform.submit(FAR)
    servers.advance_and_sync("two", "one")
    servers.executors["one"].set_running(run.id)
    servers.advance_and_sync("one", after=LEASE - timedelta(seconds=20))
    assert platform.run(run.id).server_id == "two"
    servers.advance_and_sync("one", after=LONGER_THAN_LEASE)
    taken = platform.run(run.id)
    assert (taken.server_id, taken.state, servers.count_starts(run)) == ("one", "running", 1)
    servers.end(run)
    servers.controllers["one"].sync({run.id})
    assert platform.state(run.id) == ("completed", "Completed")
    assert platform.events(run.id).count(("running", "Running")) == 1  # a change of owner is not an event


def test_claimed_run_that_never_started_is_started_by_the_new_owner(servers: Servers, platform: Platform) -> None:
    run = platform.submit(FAR)
    servers.advance_and_sync("two", "one")
    servers.executors["two"].drop_run(run.id)  # the server was killed before it started the run
    servers.advance_and_sync("one", after=LONGER_THAN_LEASE)
    assert servers.executors["one"].count("start", run.id) == 1
    assert platform.run(run.id).server_id == "one"


def test_stopping_run_is_stopped_by_the_new_owner(servers: Servers, platform: Platform) -> None:
    run = platform.submit(FAR)
    servers.advance_and_sync("two", "one")
    platform.stop(run.id)
    servers.advance_and_sync("one", after=LONGER_THAN_LEASE)
    servers.advance_and_sync("one")
    assert platform.state(run.id) == ("stopped", "Stopped")
    assert servers.executors["one"].count("stop", run.id) == 1


def test_returning_server_ignores_runs_that_were_taken_over(servers: Servers, platform: Platform) -> None:
    run = platform.submit(FAR)
    servers.advance_and_sync("two", "one")
    servers.advance_and_sync("one", after=LONGER_THAN_LEASE)
    calls = list(servers.executors["two"].calls)
    servers.end(run)
    servers.advance_and_sync("two")
    servers.controllers["two"].sync({run.id})
    assert (servers.executors["two"].calls, platform.run(run.id).server_id) == (calls, "one")
    servers.controllers["one"].sync({run.id})
    assert platform.state(run.id)[0] == "completed"


def test_only_one_of_several_servers_takes_over(servers: Servers, platform: Platform) -> None:
    servers.start("three")
    run = platform.submit(FAR)
    servers.advance_and_sync("two", "one", "three")
    servers.advance_and_sync("one", "three", after=LONGER_THAN_LEASE)
    assert platform.run(run.id).server_id == "one"
    assert platform.events(run.id).count(("pending", "Claimed")) == 1


def test_local_run_of_a_silent_server_is_not_taken_over(servers: Servers, platform: Platform) -> None:
    run = platform.submit(HOME)
    servers.advance_and_sync("two")
    assert platform.run(run.id).server_id == "two"
    servers.advance_and_sync("one", after=LONGER_THAN_LEASE)
    assert platform.run(run.id).server_id == "two"


def test_ended_run_is_not_taken_over(servers: Servers, platform: Platform) -> None:
    run = platform.submit(FAR)
    servers.advance_and_sync("two", "one")
    servers.end(run)
    servers.controllers["two"].sync({run.id})
    before = platform.run(run.id)
    servers.advance_and_sync("one", after=LONGER_THAN_LEASE)
    assert platform.run(run.id) == before


def test_cluster_runs_do_not_wait_for_local_capacity(servers: Servers, platform: Platform) -> None:
    """The cluster schedules runs itself."""
    large = [platform.submit(FAR, resources={"cpu": 1000}) for _ in range(3)]
    servers.advance_and_sync("one")
    assert [platform.state(run.id)[0] for run in large] == ["pending"] * 3
    assert [servers.count_starts(run) for run in large] == [1, 1, 1]


def test_unavailable_executor_is_retried_soon(servers: Servers, platform: Platform) -> None:
    run = platform.submit(FAR)
    servers.advance_and_sync("one")
    servers.executors["one"].set_running(run.id)
    servers.executors["one"].observe_errors[run.id] = Unavailable("no answer")
    servers.controllers["one"].sync({run.id})
    assert platform.state(run.id)[0] in ("pending", "starting")
    servers.executors["one"].observe_errors.clear()
    servers.advance_and_sync("one")
    assert platform.state(run.id)[0] == "running"


def test_failing_run_does_not_block_other_runs(servers: Servers, platform: Platform) -> None:
    first, second = platform.submit(FAR), platform.submit(FAR)
    servers.advance_and_sync("one")
    servers.executors["one"].observe_errors[first.id] = RuntimeError("a mistake")
    servers.executors["one"].end(second.id, Phase.FAILED, reason="ExitCode", message="no")
    servers.controllers["one"].sync({first.id, second.id})
    assert platform.state(second.id) == ("failed", "ExitCode")

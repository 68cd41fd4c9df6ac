"""Ownership of runs on shared clusters: one server per run, and takeover if its heartbeat expires."""

from datetime import timedelta

import pytest

from fairlead.controllers import runs
from fairlead.errors import Unavailable
from fairlead.model.observations import Phase
from tests.controllers.servers import Servers
from tests.services.executing import FAR, HOME, Platform

LONG = runs.LEASE + timedelta(seconds=10)


def test_one_of_them_takes_a_run_and_starts_it_once(servers: Servers, platform: Platform) -> None:
    run = platform.submit(FAR)
    servers.look("two", "one", "two")
    assert (platform.run(run.id).server_id, servers.starts_of(run)) == ("two", 1)
    servers.executors["one"].go(run.id)
    servers.controllers["one"].sync({run.id})  # it sees the same cluster, and leaves the run to the other
    assert platform.state(run.id)[0] == "pending"
    servers.controllers["two"].sync({run.id})
    assert platform.state(run.id)[0] == "running"


@pytest.mark.every_store
def test_the_runs_of_one_that_has_fallen_silent_are_taken_over(servers: Servers, platform: Platform) -> None:
    run = platform.submit(FAR)
    servers.look("two", "one")
    servers.executors["one"].go(run.id)
    servers.look("one", after=runs.LEASE - timedelta(seconds=20))
    assert platform.run(run.id).server_id == "two"
    servers.look("one", after=LONG)
    taken = platform.run(run.id)
    assert (taken.server_id, taken.state, servers.starts_of(run)) == ("one", "running", 1)
    servers.end(run)
    servers.controllers["one"].sync({run.id})
    assert platform.state(run.id) == ("completed", "Completed")
    assert platform.events(run.id).count(("running", "Running")) == 1  # a change of the owner is not an event


def test_one_that_was_claimed_and_never_started_is_started_by_the_other(servers: Servers, platform: Platform) -> None:
    run = platform.submit(FAR)
    servers.look("two", "one")
    servers.executors["two"].lose(run.id)  # it was killed before it could start it
    servers.look("one", after=LONG)
    assert servers.executors["one"].count("start", run.id) == 1
    assert platform.run(run.id).server_id == "one"


def test_one_that_is_being_stopped_is_stopped_by_the_other(servers: Servers, platform: Platform) -> None:
    run = platform.submit(FAR)
    servers.look("two", "one")
    platform.stop(run.id)
    servers.look("one", after=LONG)
    servers.look("one")
    assert platform.state(run.id) == ("stopped", "Stopped")
    assert servers.executors["one"].count("stop", run.id) == 1


def test_one_that_speaks_again_leaves_alone_what_was_taken_from_it(servers: Servers, platform: Platform) -> None:
    run = platform.submit(FAR)
    servers.look("two", "one")
    servers.look("one", after=LONG)
    calls = list(servers.executors["two"].calls)
    servers.end(run)
    servers.look("two")
    servers.controllers["two"].sync({run.id})
    assert (servers.executors["two"].calls, platform.run(run.id).server_id) == (calls, "one")
    servers.controllers["one"].sync({run.id})
    assert platform.state(run.id)[0] == "completed"


def test_only_one_of_several_takes_over(servers: Servers, platform: Platform) -> None:
    servers.start("three")
    run = platform.submit(FAR)
    servers.look("two", "one", "three")
    servers.look("one", "three", after=LONG)
    assert platform.run(run.id).server_id == "one"
    assert platform.events(run.id).count(("pending", "Claimed")) == 1


def test_what_runs_on_the_machine_of_a_silent_server_is_its_own(servers: Servers, platform: Platform) -> None:
    run = platform.submit(HOME)
    servers.look("two")
    assert platform.run(run.id).server_id == "two"
    servers.look("one", after=LONG)
    assert platform.run(run.id).server_id == "two"


def test_what_has_ended_is_nobody_s_any_more(servers: Servers, platform: Platform) -> None:
    run = platform.submit(FAR)
    servers.look("two", "one")
    servers.end(run)
    servers.controllers["two"].sync({run.id})
    before = platform.run(run.id)
    servers.look("one", after=LONG)
    assert platform.run(run.id) == before


def test_runs_wait_for_no_place_of_this_machine(servers: Servers, platform: Platform) -> None:
    """The cluster schedules the run."""
    large = [platform.submit(FAR, resources={"cpu": 1000}) for _ in range(3)]
    servers.look("one")
    assert [platform.state(run.id)[0] for run in large] == ["pending"] * 3
    assert [servers.starts_of(run) for run in large] == [1, 1, 1]


def test_what_cannot_be_told_now_is_asked_again_soon(servers: Servers, platform: Platform) -> None:
    run = platform.submit(FAR)
    servers.look("one")
    servers.executors["one"].go(run.id)
    servers.executors["one"].broken[run.id] = Unavailable("no answer")
    servers.controllers["one"].sync({run.id})
    assert platform.state(run.id)[0] in ("pending", "starting")
    servers.executors["one"].broken.clear()
    servers.look("one")
    assert platform.state(run.id)[0] == "running"


def test_a_run_in_trouble_keeps_no_other_from_going_on(servers: Servers, platform: Platform) -> None:
    first, second = platform.submit(FAR), platform.submit(FAR)
    servers.look("one")
    servers.executors["one"].broken[first.id] = RuntimeError("a mistake")
    servers.executors["one"].end(second.id, Phase.FAILED, reason="ExitCode", message="no")
    servers.controllers["one"].sync({first.id, second.id})
    assert platform.state(second.id) == ("failed", "ExitCode")

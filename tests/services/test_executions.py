"""Logs, usage, files, results and events of runs, and permissions."""

from collections.abc import Callable
from typing import Any

import pytest

from fairlead.errors import Conflict, Forbidden, NotFound, RequestRejected
from fairlead.model.runs import Phase
from fairlead.model.scopes import Project
from fairlead.services.transactions.unit_of_work import Call
from tests.contracts.executors import MemoryExecutor
from tests.making import PYTHON
from tests.services.executing import CODE, DIGEST, FAR, HOME, OTHER, Platform
from tests.services.worlds import call_as, rejection_rules

Reading = Callable[[Platform, Call, str], Any]
READINGS: dict[str, Reading] = {
    "log": lambda p, c, r: p.world.services.executions.log(c, r, 0, 100),
    "usage": lambda p, c, r: p.world.services.executions.usage(c, r),
    "files": lambda p, c, r: p.world.services.executions.files(c, r),
    "open_file": lambda p, c, r: p.world.services.executions.open_file(c, r, "model.bin").close(),
    "outcome": lambda p, c, r: p.world.services.executions.outcome(c, r),
    "events": lambda p, c, r: p.world.services.executions.events(c, r),
    "why": lambda p, c, r: p.world.services.explanations.why(c, r),
    "code": lambda p, c, r: p.world.services.executions.code(c, r),
    "get": lambda p, c, r: p.world.services.runs.get(c, r),
    "plan": lambda p, c, r: p.world.services.runs.plan(c, r),
}
CHANGING: dict[str, Reading] = {
    "stop": lambda p, c, r: p.world.services.runs.stop(c, r),
    "delete": lambda p, c, r: p.world.services.runs.delete(c, r),
}


def start(platform: Platform, scope: str = HOME, **request: Any) -> str:
    """Submit a run, let it run, and return its ID."""
    run, controller = platform.submit(scope, **request), platform.control()
    controller.sync(set())
    platform.executor.set_running(run.id)
    platform.executor.write(run.id, b"hello\n")
    platform.executor.runs[run.id].files["model.bin"] = b"weights"
    controller.sync({run.id})
    return run.id


def finish(platform: Platform, scope: str = HOME, **request: Any) -> str:
    """Complete a run with code, a log and a file, and return its ID."""
    platform.world.services.stored_code.put(platform.world.root, scope, DIGEST, CODE)
    run = start(platform, scope, function={**PYTHON, "code": DIGEST}, **request)
    platform.executor.end(run, result={"kind": "json", "value": 7}, usage={"mem": 5})
    platform.control().sync({run})
    return run


@pytest.mark.parametrize("reading", READINGS)
def test_viewer_can_read_and_strangers_find_nothing(platform: Platform, reading: str) -> None:
    run = finish(platform)
    viewer, stranger = platform.world.grant("vic", "viewer", HOME), platform.world.grant("sam", "admin", OTHER)
    READINGS[reading](platform, viewer, run)
    for call in (stranger, call_as("nobody")):
        with pytest.raises(NotFound, match=r"run .* does not exist"):
            READINGS[reading](platform, call, run)
    with pytest.raises(NotFound, match="run"):
        READINGS[reading](platform, viewer, "none")


@pytest.mark.parametrize("changing", CHANGING)
def test_viewer_cannot_change_a_run_and_strangers_do_not_find_it(platform: Platform, changing: str) -> None:
    run = start(platform)
    viewer, stranger = platform.world.grant("vic", "viewer", HOME), platform.world.grant("sam", "admin", OTHER)
    before = platform.run(run)
    with pytest.raises(Forbidden):
        CHANGING[changing](platform, viewer, run)
    with pytest.raises(NotFound):
        CHANGING[changing](platform, stranger, run)
    assert platform.run(run) == before


def test_outcome_is_available_after_the_run_has_ended(platform: Platform) -> None:
    executions, root = platform.world.services.executions, platform.world.root
    running = start(platform)
    with pytest.raises(Conflict, match="is running"):
        executions.outcome(root, running)
    outcome = executions.outcome(root, finish(platform))
    assert (outcome.state, outcome.exit_code, outcome.result) == ("completed", 0, {"kind": "json", "value": 7})
    assert outcome.usage == {"mem": 5}


def test_run_that_never_started_has_an_empty_outcome(platform: Platform) -> None:
    run = platform.submit()
    platform.stop(run.id)
    outcome = platform.world.services.executions.outcome(platform.world.root, run.id)
    assert (outcome.state, outcome.result, outcome.error, outcome.usage) == ("stopped", None, None, {})


def test_log_of_a_queued_run_is_empty(platform: Platform) -> None:
    executions, root = platform.world.services.executions, platform.world.root
    run = platform.submit()
    page = executions.log(root, run.id, 0, 100)
    assert (page.entries, page.complete) == ([], False)
    platform.stop(run.id)
    assert executions.log(root, run.id, 0, 100).complete


def test_log_of_a_claimed_run_is_empty(platform: Platform) -> None:
    run = platform.submit()
    assert platform.control().state_writer.claim(platform.run(run.id))
    page = platform.world.services.executions.log(platform.world.root, run.id, 0, 100)
    assert (page.entries, page.complete) == ([], False)


def test_log_continues_at_its_cursor(platform: Platform) -> None:
    executions, root = platform.world.services.executions, platform.world.root
    run = start(platform)
    first = executions.log(root, run, 0, 100)
    assert ([entry.data for entry in first.entries], first.complete) == ([b"hello\n"], False)
    platform.executor.end(run)
    assert not executions.log(root, run, first.cursor, 100).complete  # it may still be retried
    platform.control().sync({run})
    assert executions.log(root, run, first.cursor, 100).complete


@pytest.mark.parametrize("cursor", [-1, 999])
def test_unknown_cursor_is_a_violation(platform: Platform, cursor: int) -> None:
    run = start(platform)
    with pytest.raises(RequestRejected) as caught:
        platform.world.services.executions.log(platform.world.root, run, cursor, 100)
    assert rejection_rules(caught) == [("cursor", "cursor")]


def test_deleted_log_is_not_found(platform: Platform) -> None:
    run = finish(platform)
    platform.executor.delete_run(run)
    with pytest.raises(NotFound):
        platform.world.services.executions.log(platform.world.root, run, 0, 100)
    assert platform.world.services.executions.files(platform.world.root, run) == []


def test_usage_is_a_series_with_peaks(platform: Platform) -> None:
    executions, root = platform.world.services.executions, platform.world.root
    usage = executions.usage(root, start(platform))
    assert usage.peaks == {"cpu": 0.5, "mem": 1000}
    assert len(usage.series) == 1
    assert executions.usage(root, finish(platform)).peaks == {"mem": 5}  # stored peaks
    assert executions.usage(root, platform.submit().id).peaks == {}


def test_files_are_listed_and_read(platform: Platform) -> None:
    executions, root = platform.world.services.executions, platform.world.root
    run = finish(platform)
    assert [file.path for file in executions.files(root, run)] == ["model.bin"]
    with executions.open_file(root, run, "model.bin") as file:
        assert file.read() == b"weights"
    with pytest.raises(NotFound):
        executions.open_file(root, run, "other.bin")
    with pytest.raises(NotFound):
        executions.open_file(root, platform.submit(FAR).id, "model.bin")


def test_events_are_listed_from_the_start(platform: Platform) -> None:
    events = platform.world.services.executions.events(platform.world.root, finish(platform))
    assert [event.state for event in events] == ["queued", "pending", "running", "completed"]
    assert [event.at for event in events] == sorted(event.at for event in events)
    assert all(event.message for event in events)


def test_code_of_a_run_is_the_uploaded_code(platform: Platform) -> None:
    executions, root = platform.world.services.executions, platform.world.root
    assert executions.code(root, finish(platform)) == CODE
    with pytest.raises(NotFound):
        executions.code(root, platform.submit().id)


def test_wait_reason_has_the_current_numbers(platform: Platform) -> None:
    first = start(platform, resources={"cpu": 6})
    waiting = platform.submit(resources={"cpu": 4})
    platform.control().sync(set())
    why = platform.world.services.explanations.why(platform.world.root, waiting.id)
    name = platform.executor.runs[first].launch.name
    assert (why.state, why.reason, why.fit.verdict) == ("queued", "Unschedulable", "later")
    assert why.message == f"needs 4 CPU cores; 2 of 8 free on box. In use by {name}"
    assert [event.reason for event in why.events] == ["Queued", "Unschedulable"]


def test_running_run_has_no_wait_reason(platform: Platform) -> None:
    why = platform.world.services.explanations.why(platform.world.root, start(platform))
    assert (why.state, why.message, why.fit.verdict) == ("running", "running", "unknown")


def test_names_of_runs_of_other_projects_are_hidden(platform: Platform) -> None:
    world = platform.world
    hidden = start(platform, HOME, function={**PYTHON, "name": "acquisition-of-acme"}, resources={"cpu": 6})
    mia = world.grant("mia", "member", OTHER)
    waiting = platform.submit(OTHER, call=mia, resources={"cpu": 4})
    platform.control().sync(set())
    plan = world.preview(OTHER, call=mia, function=PYTHON, resources={"cpu": 4})
    (node,) = world.services.executions.nodes(mia)
    outputs = [world.services.explanations.why(mia, waiting.id), plan, node, platform.run(waiting.id)]
    for output in outputs:
        assert "acme" not in repr(output)
        assert hidden not in repr(output)
    assert plan["fit"]["verdict"] == "later"
    assert plan["fit"]["reasons"] == ["needs 4 CPU cores; 2 of 8 free on box. In use by 1 run"]
    assert (node.runs, node.others) == ([], 1)


def test_stored_plan_does_not_contain_names_that_only_administrators_see(platform: Platform) -> None:
    world = platform.world
    start(platform, HOME, function={**PYTHON, "name": "acquisition-of-acme"}, resources={"cpu": 6})
    run = platform.submit(OTHER, resources={"cpu": 4})  # by root, who sees all runs
    mia = world.grant("mia", "member", OTHER)
    assert "acme" not in repr(world.services.runs.plan(mia, run.id))


def test_nodes_show_free_capacity_and_their_runs(platform: Platform) -> None:
    run = start(platform, resources={"cpu": "500m", "mem": "2Gi"})
    viewer = platform.world.grant("vic", "viewer", HOME)
    (node,) = platform.world.services.executions.nodes(viewer)
    assert (node.name, node.runs, node.others) == ("box", [run], 0)
    assert (node.capacity["cpu"], node.free["cpu"]) == ("8", "7500m")
    assert (node.capacity["memory"], node.free["memory"]) == ("32Gi", "30Gi")


def test_nodes_hide_runs_of_a_renamed_project_from_a_new_project_with_its_old_name(platform: Platform) -> None:
    world = platform.world
    run = start(platform, HOME)
    vic = world.grant("vic", "viewer", HOME)
    world.services.scopes.edit(world.root, HOME, {"name": "grove"})
    parent = world.services.scopes.get(world.root, "project/grove").parent
    world.services.scopes.create(world.root, Project(name=HOME.removeprefix("project/"), parent=parent))
    mia = world.grant("mia", "member", HOME)
    nodes = [world.services.executions.nodes(call)[0] for call in (vic, mia)]
    assert [(node.runs, node.others) for node in nodes] == [([run], 0), ([], 1)]


def test_run_on_another_machine_is_reported_with_its_server(platform: Platform) -> None:
    run, other = platform.submit(), platform.control("s2", MemoryExecutor())
    other.sync(set())
    with pytest.raises(Conflict, match="host-s2 at http://s2"):
        platform.world.services.executions.log(platform.world.root, run.id, 0, 100)
    assert platform.world.services.executions.events(platform.world.root, run.id)


@pytest.mark.parametrize("state", ["queued", "pending", "running", "stopping", "ended"])
def test_run_can_be_stopped_in_every_state(platform: Platform, state: str) -> None:
    stop = platform.world.services.runs.stop
    run = platform.submit()
    if state != "queued":
        platform.control().sync(set())
    if state == "running":
        platform.executor.set_running(run.id)
        platform.control().sync({run.id})
    elif state == "stopping":
        platform.stop(run.id)
    elif state == "ended":
        platform.executor.end(run.id, Phase.FAILED, reason="ExitCode")
        platform.control().sync({run.id})
    before = platform.run(run.id)
    platform.notified.clear()
    mia = platform.world.grant("mia", "member", HOME)
    after = stop(mia, run.id)
    if state == "queued":
        assert (after.state, after.active, after.stopped_by) == ("stopped", False, "mia")
        assert after.message == "stopped by mia before it started"
    elif state in ("pending", "running"):
        assert (after.state, after.reason, after.message) == ("stopping", "StopRequested", "being stopped by mia")
    else:
        assert after == before
    assert platform.notified == ([run.id] if after != before else [])
    assert stop(platform.world.root, run.id) == after
    assert platform.events(run.id)[-1] == (after.state, after.reason)

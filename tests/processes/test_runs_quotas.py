"""Quotas on real servers: they hold runs with a true reason, and let them go; also where two servers give places."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from fairlead.sdk.api_client import ApiClient
from fairlead.sdk.projects import Project
from fairlead.sdk.runs import Run
from tests.processes import execution
from tests.processes.execution import Platform, end, end_all, reach, until
from tests.processes.machines import Machine

CAPACITY = {"FAIRLEAD_CAPACITY": "cpu=64,runs=20"}


@pytest.fixture
def platform(machine: Machine) -> Iterator[Platform]:
    """A server with a department, whose runs may be two at once, and a project in it and one beside it."""
    with execution.open_platform(machine, variables=CAPACITY) as opened:
        create_projects(opened)
        yield opened


def create_projects(platform: Platform, runs: int = 2) -> None:
    """Make the department, whose quota is a number of runs, and the projects."""
    connection = platform.project.api
    connection.post("/departments", {"name": "vision", "parent": "cluster/local"})
    for name, parent in (("forest", "department/vision"), ("lake", "cluster/local")):
        connection.post("/projects", {"name": name, "parent": parent})
    connection.put("/policies/department/vision", {"quota": {"runs": runs}})


def submit(platform: Platform, text: str, project: str = "forest") -> Run:
    """Submit a shell script in a project."""
    target = Project(platform.project.api, project)
    return target.function("shell", command=["bash", "-c", text]).run()


def ask(platform: Platform, path: str) -> Any:
    return platform.project.api.get(path)


def test_third_run_waits_with_a_reason_under_a_quota_of_two(platform: Platform) -> None:
    gate = platform.shared / "gate"
    running = [submit(platform, f"until [ -e {gate} ]; do sleep 0.02; done"), submit(platform, "sleep 60")]
    for run in running:
        reach(run, "running")
    third = submit(platform, "echo here")
    until(lambda: third.refresh().data["reason"] == "QuotaExceeded")
    assert (str(third.state), third.data["server_id"]) == ("queued", None)
    assert third.data["message"] == "waiting for a free slot: the department/vision quota is 2 runs at once"
    why = ask(platform, f"/runs/{third.id}/why")
    names = [f"shell-{run.id}" for run in running]
    quota = "2 of 2 runs active in the department/vision quota; one of them is run "
    assert why["message"] in [f"{quota}{name}" for name in names]
    assert why["fit"]["verdict"] == "later"
    assert sorted(
        suggestion["run_id"] for suggestion in why["fit"]["suggestions"] if suggestion["kind"] == "wait"
    ) == sorted(run.id for run in running)
    used = ask(platform, "/policies/project/forest/effective")["quotas"]
    assert [(quota["scope"], quota["used"]["runs"]) for quota in used] == [("department/vision", 2)]
    assert end(submit(platform, "true", "lake"))["state"] == "completed"  # which no quota holds
    assert str(third.refresh().state) == "queued"
    gate.touch()
    assert (end(running[0])["state"], end(third)["state"], third.logs()) == ("completed", "completed", "here\n")
    running[1].stop()


def test_raising_a_quota_starts_waiting_runs(platform: Platform) -> None:
    runs = [submit(platform, "sleep 60") for _ in range(4)]
    until(lambda: [run.refresh().data["reason"] for run in runs].count("QuotaExceeded") == 2)
    platform.project.api.put("/policies/department/vision", {"quota": {"runs": 3}}, revision=1)
    until(lambda: [str(run.refresh().state) for run in runs].count("running") == 3, 15)
    assert [str(run.state) for run in runs] == ["running"] * 3 + ["queued"]
    for run in runs:
        run.stop()
    assert {run["state"] for run in end_all(runs)} == {"stopped"}


def test_two_servers_together_never_exceed_a_quota(machine: Machine, postgresql_url: str) -> None:
    capacity = {"FAIRLEAD_CAPACITY": "cpu=64,runs=2"}  # the quota is three runs, more than one server can run
    with execution.open_platform(machine, "--database", postgresql_url, variables=capacity) as first:
        keys = (first.server.data / "secret.key").read_text().split()[0]
        variables = capacity | {"FAIRLEAD_SECRET_KEYS": keys}
        second = replace(first, server=machine.up("--database", postgresql_url, data="other", variables=variables))
        create_projects(first, runs=3)
        inside = first.file("inside")
        wait = f"until [ $(grep -c + {inside}) -ge 3 ]; do sleep 0.02; done; sleep 0.2"
        runs = [
            submit((first, second)[number % 2], f"echo +1 >> {inside}; {wait}; echo -1 >> {inside}")
            for number in range(24)
        ]
        assert {run["state"] for run in end_all(runs, 90)} == {"completed"}
        at_once = [0]
        for change in inside.read_text().split():
            at_once.append(at_once[-1] + int(change))
        assert (max(at_once), at_once[-1]) == (3, 0)
        servers = {
            Run(ApiClient(first.server.url, first.server.token), run.data).refresh().data["server_id"] for run in runs
        }
        assert len(servers) == 2

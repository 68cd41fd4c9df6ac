"""Quotas on real servers: runs wait with the correct reason and start later, and two servers respect the same quota."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from fairlead.sdk.api_client import ApiClient
from fairlead.sdk.projects import Project
from fairlead.sdk.runs import Run
from tests.processes import execution
from tests.processes.execution import Platform, until, wait_for_all, wait_for_end, wait_for_state
from tests.processes.machines import Machine

CAPACITY = {"FAIRLEAD_CAPACITY": "cpu=64,runs=20"}


@pytest.fixture
def platform(machine: Machine) -> Iterator[Platform]:
    """A server that has a department with a quota of two runs, one project in it, and one outside it."""
    with execution.open_platform(machine, variables=CAPACITY) as opened:
        create_projects(opened)
        yield opened


def create_projects(platform: Platform, runs: int = 2) -> None:
    """Create the department with a run quota, and the two projects."""
    connection = platform.project.api
    connection.post("/departments", {"name": "vision", "parent": "cluster/local"})
    for name, parent in (("forest", "department/vision"), ("lake", "cluster/local")):
        connection.post("/projects", {"name": name, "parent": parent})
    connection.put("/policies/department/vision", {"quota": {"runs": runs}})


def submit(platform: Platform, text: str, project: str = "forest") -> Run:
    """Submit a shell script in a project."""
    target = Project(platform.project.api, project)
    return target.function("shell", command=["bash", "-c", text]).run()


def get(platform: Platform, path: str) -> Any:
    return platform.project.api.get(path)


def test_third_run_waits_with_a_reason_under_a_quota_of_two(platform: Platform) -> None:
    gate = platform.shared / "gate"
    running = [submit(platform, f"until [ -e {gate} ]; do sleep 0.02; done"), submit(platform, "sleep 60")]
    for run in running:
        wait_for_state(run, "running")
    third = submit(platform, "echo here")
    until(lambda: third.refresh().data["reason"] == "QuotaExceeded")
    assert (str(third.state), third.data["server_id"]) == ("queued", None)
    assert third.data["message"] == "waiting for a free slot: the department/vision quota is 2 runs at once"
    why = get(platform, f"/runs/{third.id}/why")
    names = [f"shell-{run.id}" for run in running]
    quota = "2 of 2 runs active in the department/vision quota; one of them is run "
    assert why["message"] in [f"{quota}{name}" for name in names]
    assert why["fit"]["verdict"] == "later"
    assert sorted(
        suggestion["run_id"] for suggestion in why["fit"]["suggestions"] if suggestion["kind"] == "wait"
    ) == sorted(run.id for run in running)
    used = get(platform, "/policies/project/forest/effective")["quotas"]
    assert [(quota["scope"], quota["used"]["runs"]) for quota in used] == [("department/vision", 2)]
    assert (
        wait_for_end(submit(platform, "true", "lake"))["state"] == "completed"
    )  # the quota does not apply to this project
    assert str(third.refresh().state) == "queued"
    gate.touch()
    assert (wait_for_end(running[0])["state"], wait_for_end(third)["state"], third.logs()) == (
        "completed",
        "completed",
        "here\n",
    )
    running[1].stop()


def test_raising_a_quota_starts_waiting_runs(platform: Platform) -> None:
    runs = [submit(platform, "sleep 60") for _ in range(4)]
    until(lambda: [run.refresh().data["reason"] for run in runs].count("QuotaExceeded") == 2)
    platform.project.api.put("/policies/department/vision", {"quota": {"runs": 3}}, revision=1)
    until(lambda: [str(run.refresh().state) for run in runs].count("running") == 3, 15)
    assert [str(run.state) for run in runs] == ["running"] * 3 + ["queued"]
    for run in runs:
        run.stop()
    assert {run["state"] for run in wait_for_all(runs)} == {"stopped"}


def test_two_servers_together_never_exceed_a_quota(machine: Machine, postgresql_url: str) -> None:
    capacity = {"FAIRLEAD_CAPACITY": "cpu=64,runs=2"}  # the quota is three runs, which is more than one server can run
    with execution.open_platform(machine, "--database", postgresql_url, variables=capacity) as first:
        keys = (first.server.data / "secret.key").read_text().split()[0]
        variables = capacity | {"FAIRLEAD_SECRET_KEYS": keys}
        second = replace(first, server=machine.up("--database", postgresql_url, data="other", variables=variables))
        create_projects(first, runs=3)
        changes = first.file("changes")
        wait = f"until [ $(grep -c + {changes}) -ge 3 ]; do sleep 0.02; done; sleep 0.2"
        runs = [
            submit((first, second)[number % 2], f"echo +1 >> {changes}; {wait}; echo -1 >> {changes}")
            for number in range(24)
        ]
        assert {run["state"] for run in wait_for_all(runs, 90)} == {"completed"}
        concurrent_runs = [0]
        for change in changes.read_text().split():
            concurrent_runs.append(concurrent_runs[-1] + int(change))
        assert (max(concurrent_runs), concurrent_runs[-1]) == (3, 0)
        servers = {
            Run(ApiClient(first.server.url, first.server.token), run.data).refresh().data["server_id"] for run in runs
        }
        assert len(servers) == 2

"""Retries on the real control plane: each attempt has its own objects, and all of them are removed."""

import signal
from typing import Any

import pytest

from fairlead.sdk.runs import Run
from tests.cluster.clients import Client, until
from tests.cluster.control_planes import ControlPlane
from tests.cluster.kubelets import FakeKubelet
from tests.cluster.platforms import Platform
from tests.cluster.test_reasons import adding, image
from tests.cluster.test_run_end import left_of
from tests.processes.machines import Machine

LONG = 120.0
DATA = {
    "volume_type": "persistent_volume_claim",
    "name": "data",
    "mount_path": "/data",
    "spec": {"size": "1Gi", "storage_class": "fast"},
}
SECOND = """
import os
def main():
    number, run = os.environ["FAIRLEAD_ATTEMPT"], os.environ["FAIRLEAD_RUN"]
    print("try", number, "of", run, "knows", os.environ["TOKEN"], flush=True)
    with open(os.environ["FAIRLEAD_OUTPUT"] + "/number", "w") as file:
        file.write(number)
    if number == "1":
        raise ValueError("not yet")
    return {"number": number}
"""
GREEDY = """
def main():
    taken = bytearray(200 << 20)
    import time
    time.sleep(2)
    return len(taken)
"""


@pytest.fixture(scope="module")
def platform(shared_machine: Machine, control_plane: ControlPlane, kubelet: FakeKubelet, admin: Client) -> Platform:
    """A server that removes the objects of a try as soon as it is over."""
    made = Platform(shared_machine, control_plane, admin)
    made.variables = {"FAIRLEAD_KEEP_OBJECTS_MINUTES": "0"}
    made.restart()
    until(lambda: made.api("GET", "/nodes"))
    return made


def tries_of(run: Run) -> list[tuple[int, str, str]]:
    """The tries of a run: numbers, states and reasons."""
    return [(attempt["number"], attempt["state"], attempt["reason"]) for attempt in run.attempts()]


def until_gone(admin: Client, run: Run, tries: int) -> None:
    """Wait until the objects of all attempts are gone."""
    for number in range(1, tries + 1):
        execution = run.id if number == 1 else f"{run.id}-{number}"
        until(lambda execution=execution: not left_of(admin, execution), seconds=60)  # type: ignore[misc]


def memory_of(job: dict[str, Any]) -> tuple[str, str]:
    """The memory request and limit of a Job's container."""
    resources = job["spec"]["template"]["spec"]["containers"][0]["resources"]
    return resources["requests"]["memory"], resources["limits"]["memory"]


def test_failed_function_is_retried_with_its_secrets_and_volumes(platform: Platform, admin: Client) -> None:
    platform.project.set_secret("TOKEN", "hunter2hunter2")
    run = platform.call(SECOND, retries=1, secrets=["TOKEN"], volumes=[DATA])
    waiting = platform.until(run, "Retrying", seconds=LONG)
    assert waiting["message"] == "attempt 1 failed (ExitCode): ValueError: not yet; attempt 2 of 2 starts in 10 s"
    assert platform.until(run, "completed", "failed", seconds=LONG)["state"] == "completed"
    run.refresh()
    assert tries_of(run) == [(1, "failed", "ExitCode"), (2, "completed", "Completed")]
    assert run.attempts()[0]["error"]["message"] == "not yet"
    assert run.result == {"number": "2"}
    for number in (1, 2):
        assert run.logs(attempt=number).splitlines()[0] == f"try {number} of {run.id} knows ***"
        assert run.read("number", attempt=number) == str(number).encode()
    assert run.logs() == run.logs(attempt=2)
    until_gone(admin, run, 2)
    platform.restart()
    assert [run.logs(attempt=number).split()[1] for number in (1, 2)] == ["1", "2"]  # what was saved of them
    story = [line.text for line in run.read_logs(cursor=0) if line.stream == "platform"]
    assert story == ["attempt 1 failed (ExitCode): ValueError: not yet; attempt 2 follows\n"]


def test_job_after_out_of_memory_has_more_memory(platform: Platform, admin: Client) -> None:
    memory = {"requests": "64Mi", "limits": "96Mi"}
    run = platform.call(GREEDY, resources={"mem": memory}, on_oom={"grow": 4, "max": "1Gi"})
    first = until(lambda: _find_job(admin, run.id), seconds=LONG)
    platform.until(run, "Retrying", "running", seconds=LONG)
    second = until(lambda: _find_job(admin, f"{run.id}-2"), seconds=LONG)
    assert (memory_of(first), memory_of(second)) == (("64Mi", "96Mi"), ("256Mi", "384Mi"))
    assert second["metadata"]["name"] == f"{first['metadata']['name']}attempt2"
    assert platform.until(run, "completed", "failed", seconds=LONG)["state"] == "completed"
    assert [attempt["reason"] for attempt in run.attempts()] == ["OOMKilled", "Completed"]
    assert [attempt["mem_bytes"] >> 20 for attempt in run.attempts()] == [64, 256]
    until_gone(admin, run, 2)


def test_run_that_always_exits_with_an_error_fails_after_its_last_attempt(platform: Platform, admin: Client) -> None:
    run = platform.run(function=image("exit-3"), retries=1)
    ended = platform.until(run, "failed", seconds=LONG)
    assert (ended["reason"], ended["exit_code"], ended["attempt"]) == ("ExitCode", 3, 2)
    assert ended["message"].endswith("; that was attempt 2 of 2")
    until_gone(admin, run, 2)


def test_run_with_a_removed_pod_is_retried_immediately(platform: Platform, admin: Client) -> None:
    run = platform.run(retries=1)
    platform.until(run, "running")
    (pod,) = platform.pods_of(run)
    admin.delete(f"/api/v1/namespaces/{platform.namespace}/pods/{pod['metadata']['name']}")
    until(lambda: (status := platform.show(run))["attempt"] == 2 and status["state"] == "running", seconds=LONG)
    assert tries_of(run) == [(1, "failed", "PodRemoved"), (2, "running", "Running")]
    run.stop()
    platform.until(run, "stopped")
    until_gone(admin, run, 2)


def test_run_on_a_rebooted_node_is_retried_immediately(platform: Platform, kubelet: FakeKubelet) -> None:
    with adding(platform, kubelet, "again") as selector:
        run = platform.run(retries=1, **selector)
        platform.until(run, "running")
        kubelet.lose_node("again")
        kubelet.restore_node("again")
        until(lambda: (status := platform.show(run))["attempt"] == 2 and status["state"] == "running", seconds=LONG)
        assert tries_of(run)[0] == (1, "failed", "NodeLost")
        run.stop()
        platform.until(run, "stopped")


def test_eviction_does_not_count_as_an_attempt(platform: Platform) -> None:
    run = platform.run(function=image("evicted"), retries=1)
    platform.until(run, "Evicted", seconds=LONG)
    assert platform.show(run)["attempt"] == 1
    run.stop()
    platform.until(run, "stopped")


@pytest.mark.parametrize("server_is_up", [True, False])
def test_killed_server_starts_the_next_attempt_once(platform: Platform, admin: Client, server_is_up: bool) -> None:
    """Whether it has just begun that try, or was not there when the one before failed."""
    run = platform.run(retries=2)
    platform.until(run, "running")
    (pod,) = platform.pods_of(run)
    if not server_is_up:
        platform.server.stop(signal.SIGKILL)
    admin.delete(f"/api/v1/namespaces/{platform.namespace}/pods/{pod['metadata']['name']}")
    if server_is_up:
        until(lambda: _find_job(admin, f"{run.id}-2"), seconds=LONG)
    platform.restart()
    until(lambda: (status := platform.show(run))["attempt"] == 2 and status["state"] == "running", seconds=LONG)
    assert len(platform.pods_of(f"{run.id}-2")) == 1
    assert _find_job(admin, f"{run.id}-3") is None
    assert [event["reason"] for event in run.events()].count("Retrying") == 1
    run.stop()
    platform.until(run, "stopped")
    until_gone(admin, run, 2)


def test_all_attempts_are_deleted_with_their_run(platform: Platform, admin: Client) -> None:
    run = platform.call(GREEDY, resources={"mem": {"limits": "96Mi"}}, on_oom={"grow": 4})
    platform.until(run, "completed", seconds=LONG)
    run.delete()
    until_gone(admin, run, 2)
    folder = platform.server.data / "clusters"
    until(lambda: not list(folder.rglob(f"{run.id}*")), seconds=60)


def _find_job(admin: Client, execution: str) -> dict[str, Any] | None:
    return next(iter(admin.items("/apis/batch/v1/jobs", labelSelector=f"fairlead.dev/run={execution}")), None)

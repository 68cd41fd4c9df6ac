"""Retries on the real control plane: each attempt has its own objects, and all of them are removed."""

import signal
from typing import Any

import pytest

from fairlead.sdk.runs import Run
from tests.cluster.clients import Client, until
from tests.cluster.control_planes import ControlPlane
from tests.cluster.kubelets import FakeKubelet
from tests.cluster.platforms import Platform
from tests.cluster.test_reasons import image, temporary_node
from tests.cluster.test_run_end import count_objects
from tests.processes.machines import Machine

SECONDS = 120.0
DATA = {
    "volume_type": "persistent_volume_claim",
    "name": "data",
    "mount_path": "/data",
    "spec": {"size": "1Gi", "storage_class": "fast"},
}
SUCCEEDS_AT_SECOND_ATTEMPT = """
import os
def main():
    number, run = os.environ["FAIRLEAD_ATTEMPT"], os.environ["FAIRLEAD_RUN"]
    print("attempt", number, "of", run, "with", os.environ["TOKEN"], flush=True)
    with open(os.environ["FAIRLEAD_OUTPUT"] + "/number", "w") as file:
        file.write(number)
    if number == "1":
        raise ValueError("not yet")
    return {"number": number}
"""
ALLOCATE = """
def main():
    data = bytearray(200 << 20)
    import time
    time.sleep(2)
    return len(data)
"""


@pytest.fixture(scope="module")
def platform(shared_machine: Machine, control_plane: ControlPlane, kubelet: FakeKubelet, admin: Client) -> Platform:
    """A server that removes the objects of an attempt as soon as it has ended."""
    platform = Platform(shared_machine, control_plane, admin)
    platform.variables = {"FAIRLEAD_KEEP_OBJECTS_MINUTES": "0"}
    platform.restart()
    until(lambda: platform.api("GET", "/nodes"))
    return platform


def attempts_of(run: Run) -> list[tuple[int, str, str]]:
    """The number, state and reason of each of a run's attempts."""
    return [(attempt["number"], attempt["state"], attempt["reason"]) for attempt in run.attempts()]


def wait_until_removed(admin: Client, run: Run, attempts: int) -> None:
    """Wait until the objects of all attempts are removed."""
    for number in range(1, attempts + 1):
        execution = run.id if number == 1 else f"{run.id}-{number}"
        until(lambda execution=execution: not count_objects(admin, execution), seconds=60)  # type: ignore[misc]


def memory_of(job: dict[str, Any]) -> tuple[str, str]:
    """The memory request and limit of a Job's container."""
    resources = job["spec"]["template"]["spec"]["containers"][0]["resources"]
    return resources["requests"]["memory"], resources["limits"]["memory"]


def test_failed_function_is_retried_with_its_secrets_and_volumes(platform: Platform, admin: Client) -> None:
    platform.project.set_secret("TOKEN", "hunter2hunter2")
    run = platform.python(SUCCEEDS_AT_SECOND_ATTEMPT, retries=1, secrets=["TOKEN"], volumes=[DATA])
    waiting = platform.until(run, "Retrying", seconds=SECONDS)
    assert waiting["message"] == "attempt 1 failed (ExitCode): ValueError: not yet; attempt 2 of 2 starts in 10 s"
    assert platform.until(run, "completed", "failed", seconds=SECONDS)["state"] == "completed"
    run.refresh()
    assert attempts_of(run) == [(1, "failed", "ExitCode"), (2, "completed", "Completed")]
    assert run.attempts()[0]["error"]["message"] == "not yet"
    assert run.result == {"number": "2"}
    for number in (1, 2):
        assert run.logs(attempt=number).splitlines()[0] == f"attempt {number} of {run.id} with ***"
        assert run.read("number", attempt=number) == str(number).encode()
    assert run.logs() == run.logs(attempt=2)
    wait_until_removed(admin, run, 2)
    platform.restart()
    assert [run.logs(attempt=number).split()[1] for number in (1, 2)] == ["1", "2"]  # from the stored logs
    platform_lines = [line.text for line in run.read_logs(cursor=0) if line.stream == "platform"]
    assert platform_lines == ["attempt 1 failed (ExitCode): ValueError: not yet; attempt 2 follows\n"]


def test_job_after_out_of_memory_has_more_memory(platform: Platform, admin: Client) -> None:
    memory = {"requests": "64Mi", "limits": "96Mi"}
    run = platform.python(ALLOCATE, resources={"mem": memory}, on_oom={"grow": 4, "max": "1Gi"})
    first = until(lambda: _find_job(admin, run.id), seconds=SECONDS)
    platform.until(run, "Retrying", "running", seconds=SECONDS)
    second = until(lambda: _find_job(admin, f"{run.id}-2"), seconds=SECONDS)
    assert (memory_of(first), memory_of(second)) == (("64Mi", "96Mi"), ("256Mi", "384Mi"))
    assert second["metadata"]["name"] == f"{first['metadata']['name']}attempt2"
    assert platform.until(run, "completed", "failed", seconds=SECONDS)["state"] == "completed"
    assert [attempt["reason"] for attempt in run.attempts()] == ["OOMKilled", "Completed"]
    assert [attempt["mem_bytes"] >> 20 for attempt in run.attempts()] == [64, 256]
    wait_until_removed(admin, run, 2)


def test_run_that_always_exits_with_an_error_fails_after_its_last_attempt(platform: Platform, admin: Client) -> None:
    run = platform.run(function=image("exit-3"), retries=1)
    ended = platform.until(run, "failed", seconds=SECONDS)
    assert (ended["reason"], ended["exit_code"], ended["attempt"]) == ("ExitCode", 3, 2)
    assert ended["message"].endswith("; that was attempt 2 of 2")
    wait_until_removed(admin, run, 2)


def test_run_with_a_removed_pod_is_retried_immediately(platform: Platform, admin: Client) -> None:
    run = platform.run(retries=1)
    platform.until(run, "running")
    (pod,) = platform.pods_of(run)
    admin.delete(f"/api/v1/namespaces/{platform.namespace}/pods/{pod['metadata']['name']}")
    until(lambda: (status := platform.get_run(run))["attempt"] == 2 and status["state"] == "running", seconds=SECONDS)
    assert attempts_of(run) == [(1, "failed", "PodRemoved"), (2, "running", "Running")]
    run.stop()
    platform.until(run, "stopped")
    wait_until_removed(admin, run, 2)


def test_run_on_a_rebooted_node_is_retried_immediately(platform: Platform, kubelet: FakeKubelet) -> None:
    with temporary_node(platform, kubelet, "restarted") as selector:
        run = platform.run(retries=1, **selector)
        platform.until(run, "running")
        kubelet.lose_node("restarted")
        kubelet.restore_node("restarted")
        until(
            lambda: (status := platform.get_run(run))["attempt"] == 2 and status["state"] == "running", seconds=SECONDS
        )
        assert attempts_of(run)[0] == (1, "failed", "NodeLost")
        run.stop()
        platform.until(run, "stopped")


def test_eviction_does_not_count_as_an_attempt(platform: Platform) -> None:
    run = platform.run(function=image("evicted"), retries=1)
    platform.until(run, "Evicted", seconds=SECONDS)
    assert platform.get_run(run)["attempt"] == 1
    run.stop()
    platform.until(run, "stopped")


@pytest.mark.parametrize("server_is_up", [True, False])
def test_killed_server_starts_the_next_attempt_once(platform: Platform, admin: Client, server_is_up: bool) -> None:
    """The server is killed just after it started the attempt, or is down when the previous attempt fails."""
    run = platform.run(retries=2)
    platform.until(run, "running")
    (pod,) = platform.pods_of(run)
    if not server_is_up:
        platform.server.stop(signal.SIGKILL)
    admin.delete(f"/api/v1/namespaces/{platform.namespace}/pods/{pod['metadata']['name']}")
    if server_is_up:
        until(lambda: _find_job(admin, f"{run.id}-2"), seconds=SECONDS)
    platform.restart()
    until(lambda: (status := platform.get_run(run))["attempt"] == 2 and status["state"] == "running", seconds=SECONDS)
    assert len(platform.pods_of(f"{run.id}-2")) == 1
    assert _find_job(admin, f"{run.id}-3") is None
    assert [event["reason"] for event in run.events()].count("Retrying") == 1
    run.stop()
    platform.until(run, "stopped")
    wait_until_removed(admin, run, 2)


def test_all_attempts_are_deleted_with_their_run(platform: Platform, admin: Client) -> None:
    run = platform.python(ALLOCATE, resources={"mem": {"limits": "96Mi"}}, on_oom={"grow": 4})
    platform.until(run, "completed", seconds=SECONDS)
    run.delete()
    wait_until_removed(admin, run, 2)
    folder = platform.server.data / "clusters"
    until(lambda: not list(folder.rglob(f"{run.id}*")), seconds=60)


def _find_job(admin: Client, execution: str) -> dict[str, Any] | None:
    return next(iter(admin.items("/apis/batch/v1/jobs", labelSelector=f"fairlead.dev/run={execution}")), None)

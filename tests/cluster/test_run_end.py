"""After a run has ended, its objects are removed and its logs are complete."""

import itertools
import threading
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from fairlead.adapters.database.stores import DatabaseStore
from fairlead.adapters.kubernetes.sampling import PodMetricsSampler
from fairlead.model.runs import Phase
from fairlead.sdk.runs import Run
from tests.cluster.benches import KubernetesBench, serving
from tests.cluster.clients import Client, path_of, until
from tests.cluster.control_planes import ControlPlane
from tests.cluster.kubelets import FakeKubelet
from tests.cluster.making import make_claim
from tests.cluster.platforms import Platform
from tests.contracts.executors import ENDED, RETURNS, WAITS, read_all
from tests.databases import wait_until

GROUPS = {"jobs": "apis/batch/v1", "deployments": "apis/apps/v1"}
OBJECTS = ("jobs", "pods", "persistentvolumeclaims", "secrets", "configmaps")
DATA = {
    "volume_type": "persistent_volume_claim",
    "name": "data",
    "mount_path": "/data",
    "spec": {"size": "1Gi", "storage_class": "fast"},
}
PRINT_ON_SIGTERM = """
import signal, sys, time

def end(*_):
    for number in range(3):
        print("stopping", number, flush=True)
        time.sleep(0.2)
    sys.exit(3)

def main():
    signal.signal(signal.SIGTERM, end)
    print("up", flush=True)
    while True:
        time.sleep(0.1)
"""
EXPECTED_LOG = "up\nstopping 0\nstopping 1\nstopping 2\n"
COUNT = """
import os, time
def main(count):
    for number in range(count):
        print(number, os.environ.get("TOKEN", ""), flush=True)
        time.sleep(0.03)
"""
PRINT_INDEX = """
import os, time
def main(fail):
    index = os.environ["JOB_COMPLETION_INDEX"]
    print("I am", index, flush=True)
    time.sleep(1)
    if fail == index:
        sys.exit("no more")
    if fail:
        time.sleep(60)
"""


def count_objects(admin: Client, run: Run | str) -> dict[str, int]:
    """The number of a run's objects by kind, without zeros."""
    selector = f"fairlead.dev/run={run if isinstance(run, str) else run.id}"
    counts = {
        plural: len(admin.items(f"/{GROUPS.get(plural, 'api/v1')}/{plural}", labelSelector=selector))
        for plural in (*OBJECTS, "deployments", "services")
    }
    return {plural: count for plural, count in counts.items() if count}


def start_run(platform: Platform, source: str = PRINT_ON_SIGTERM, text: str = "up", **request: Any) -> Run:
    """Submit a run, and wait until its log contains a text."""
    run = platform.python(source, **request)
    until(lambda: text in run.logs())
    return run


def job_path(platform: Platform, run: Run) -> str:
    return f"/apis/batch/v1/namespaces/{platform.namespace}/jobs/{platform.job_of(run)['metadata']['name']}"


# Stopping


@pytest.mark.parametrize("state", ["pending", "starting", "running"])
def test_stopped_run_leaves_no_objects(platform: Platform, admin: Client, state: str) -> None:
    platform.project.set_secret("TOKEN", "hunter2hunter2")
    first = platform.run("first", resources={"gpu": 8} if state == "pending" else {})
    platform.until(first, "running")
    run = platform.python(
        PRINT_ON_SIGTERM,
        image="example.test/no-such-image" if state == "starting" else None,
        resources={"gpu": 8} if state == "pending" else {},
        volumes=[DATA],
        secrets=["TOKEN"],
    )
    platform.until(run, {"pending": "Unschedulable", "starting": "ImagePullBackOff"}.get(state, "running"))
    assert count_objects(admin, run) == dict.fromkeys(OBJECTS, 1)
    run.stop()
    assert platform.until(run, "stopped")["message"] == "stopped by root@localhost"
    until(lambda: not count_objects(admin, run))
    assert count_objects(admin, first) == {"jobs": 1, "pods": 1}
    first.stop()
    platform.until(first, "stopped")


def test_output_during_the_stop_is_stored(platform: Platform, admin: Client) -> None:
    run = start_run(platform)
    run.stop()
    platform.until(run, "stopped")
    until(lambda: not count_objects(admin, run))
    assert run.logs() == EXPECTED_LOG


def test_output_during_the_stop_is_stored_if_the_server_is_killed(platform: Platform) -> None:
    run = start_run(platform, PRINT_ON_SIGTERM.replace("range(3)", "range(15)"))
    run.stop()
    until(lambda: any("deletionTimestamp" in pod["metadata"] for pod in platform.pods_of(run)))
    platform.restart()
    assert platform.until(run, "stopped")["message"] == "stopped by root@localhost"
    until(lambda: "stopping 14" in run.logs())
    assert run.logs() == "up\n" + "".join(f"stopping {number}\n" for number in range(15))


def test_output_after_the_deadline_is_stored(platform: Platform) -> None:
    run = start_run(platform, deadline=3)
    assert platform.until(run, "failed")["reason"] == "DeadlineExceeded"
    assert run.logs() == EXPECTED_LOG


@pytest.mark.parametrize("propagation", ["Background", "Foreground"])
def test_output_is_stored_if_the_job_is_removed(platform: Platform, admin: Client, propagation: str) -> None:
    run = start_run(platform)
    admin.delete(job_path(platform, run), propagationPolicy=propagation)
    assert platform.until(run, "failed")["reason"] == "Lost"
    assert run.logs() == EXPECTED_LOG
    until(lambda: not count_objects(admin, run))


def test_orphaned_pods_can_be_stopped(platform: Platform, admin: Client) -> None:
    run = start_run(platform)
    admin.delete(job_path(platform, run), propagationPolicy="Orphan")
    until(lambda: "its pods are still running" in platform.get_run(run)["message"])
    assert platform.get_run(run)["state"] == "running"
    run.stop()
    platform.until(run, "stopped")
    assert run.logs() == EXPECTED_LOG
    until(lambda: "pods" not in count_objects(admin, run))


# Logs


def test_log_of_several_pods_names_the_pod_of_each_line(platform: Platform) -> None:
    run = platform.python(PRINT_INDEX, replicas=3, inputs={"fail": ""})
    platform.until(run, "completed")
    job, lines = platform.job_of(run)["metadata"]["name"], str(run.logs()).splitlines()
    assert sorted(lines[1::2]) == ["I am 0", "I am 1", "I am 2"]
    for pod_line, line in zip(lines[::2], lines[1::2], strict=True):
        assert pod_line.startswith(f"pod {job}-{line[-1]}-"), lines


def test_output_of_other_pods_is_stored_when_one_fails(platform: Platform) -> None:
    run = platform.python(PRINT_INDEX, replicas=3, inputs={"fail": "1"})
    platform.until(run, "failed")
    assert {f"I am {index}" for index in range(3)} <= set(str(run.logs()).splitlines())


def test_followed_log_continues_after_a_server_kill_without_gaps_or_duplicates(
    platform: Platform,
) -> None:
    """The log also masks a secret that the killed server knew."""
    platform.project.set_secret("TOKEN", "hunter2hunter2")
    run = start_run(platform, COUNT, "3 ", inputs={"count": 120}, secrets=["TOKEN"])
    lines: list[str] = []
    reader = threading.Thread(target=lambda: lines.extend(line.text for line in run.read_logs(follow=True)))
    reader.start()
    until(lambda: len(lines) > 10)
    platform.restart()
    reader.join(60)
    assert lines == [f"{number} ***\n" for number in range(120)]
    assert platform.get_run(run)["state"] == "completed"
    platform.restart()
    assert run.logs() == "".join(lines)


# Retention


@pytest.fixture
def bench(
    control_plane: ControlPlane, kubelet: FakeKubelet, sqlite_store: DatabaseStore, tmp_path: Path
) -> Iterator[KubernetesBench]:
    """An executor without any runs."""
    with serving(sqlite_store) as url:
        bench = KubernetesBench(control_plane, tmp_path, sqlite_store, f"t{uuid.uuid4().hex[:8]}", url)
        yield bench
        bench.close()


def measure(bench: KubernetesBench, run_id: str, *, memory: int = 0) -> None:
    """Sample the usage of a run until more than `memory` bytes were measured."""
    executor = bench.executor
    sampler = PodMetricsSampler(executor.api, executor.view, executor.sampler.folder, lambda: datetime.now(UTC), 0.1)
    thread = threading.Thread(target=sampler.run)
    thread.start()
    wait_until(lambda: len(executor.read_usage(run_id)) > 2, seconds=60)
    wait_until(lambda: any(sample["mem"] > memory for sample in executor.read_usage(run_id)), seconds=60)
    sampler.stop()
    thread.join()


def test_usage_comes_from_the_metrics_api(bench: KubernetesBench, metrics: None) -> None:
    program = "def main():\n    data = bytearray(50_000_000)\n    while True:\n        data[0] = 1\n"
    bench.start("r1", program)
    bench.until("r1", Phase.RUNNING)
    measure(bench, "r1", memory=50_000_000)
    samples = bench.executor.read_usage("r1")
    assert all(before["at"] < after["at"] for before, after in itertools.pairwise(samples))
    assert max(sample["mem"] for sample in samples) > 50_000_000
    assert max(sample["cpu"] for sample in samples) > 0.05
    bench.executor.stop("r1")
    observation = bench.until("r1", *ENDED)
    assert observation.usage == {name: max(sample[name] for sample in samples) for name in ("cpu", "mem")}


def test_objects_are_removed_after_a_while_and_their_data_stays(
    bench: KubernetesBench, admin: Client, metrics: None
) -> None:
    program = RETURNS.replace('return {"n": 7}', 'import time; time.sleep(2); return {"n": 7}')
    bench.start("r1", program, volumes=[DATA], secrets={"TOKEN": "hunter2hunter2"})
    bench.until("r1", Phase.RUNNING)
    measure(bench, "r1")
    observation, usage = bench.until("r1", *ENDED), bench.executor.read_usage("r1")
    bench.executor.clean_up("r1")
    assert count_objects(admin, "r1") == dict.fromkeys(OBJECTS, 1)  # objects are kept for an hour
    immediate = bench.open(objects=timedelta(0))
    immediate.clean_up("r1")
    wait_until(lambda: not count_objects(admin, "r1"), seconds=30)
    wait_until(lambda: immediate.view.find_run("r1") is None and bench.executor.view.find_run("r1") is None)
    for executor in (bench.executor, immediate, bench.open()):
        assert executor.observe("r1") == observation
        assert read_all(executor, "r1") == bench.output
        assert executor.read_log("r1", 0, 1 << 20).complete
        assert executor.read_usage("r1") == usage
        assert [file.path for file in executor.list_files("r1")] == ["deep/notes.txt", "model.bin"]
    launch = bench.plan("r1", program, volumes=[DATA], secrets={"TOKEN": "hunter2hunter2"})
    bench.open().start(launch)
    assert count_objects(admin, "r1") == {}  # an ended run does not start again


def test_volumes_of_other_platforms_are_ignored(bench: KubernetesBench, admin: Client, namespace: str) -> None:
    labels = {"fairlead.dev/volume": "v1", "fairlead.dev/platform": "another"}
    claim = make_claim(namespace, "theirs")
    admin.create({**claim, "metadata": {**claim["metadata"], "labels": labels}})
    assert bench.executor.list_volumes() == []
    bench.executor.remove_volume("v1")
    assert "deletionTimestamp" not in admin.get(path_of(claim))["metadata"]


def test_running_job_is_never_removed(bench: KubernetesBench, admin: Client) -> None:
    bench.start("r1", WAITS)
    bench.until("r1", Phase.RUNNING)
    bench.open(objects=timedelta(0)).clean_up("r1")
    assert count_objects(admin, "r1")["jobs"] == 1
    observation = bench.executor.observe("r1")
    assert observation is not None
    assert observation.phase is Phase.RUNNING

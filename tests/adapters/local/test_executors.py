"""The local executor, with real processes and folders."""

import errno
import json
import os
import select
import shutil
import signal
import stat
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

from fairlead.adapters.local import allocation
from fairlead.adapters.local.executor import LocalExecutor
from fairlead.adapters.local.machines import GpuDevice, find_machine, find_memory, read_boot_id
from fairlead.adapters.local.orphans import find_processes_of
from fairlead.adapters.local.specs import SPEC, STATE, Spec, read_json, write_json
from fairlead.errors import Unavailable
from fairlead.model.quantities import Quantity
from fairlead.model.runs import ExecutionId, Phase
from fairlead.run_events import RunEvent, RunEvents
from tests.adapters.local.making import make_launch_spec, runtime, this_machine
from tests.contracts.executors import ENDED, RETURNS, SERVES, WAITS, LocalBench, is_over, read_all, wait_for_phase
from tests.databases import wait_until
from tests.scheduling.nodes import make_amounts

IGNORES = """
import signal, time
def main():
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    print("up")
    time.sleep(60)
"""
LEAVES = """
import os
def main():
    os.mkdir("/fairlead/x")
    open("/fairlead/x/y", "w")
    os.symlink("/", "/fairlead/l")
"""


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[LocalBench]:
    """An executor without any runs."""
    created = LocalBench(tmp_path, this_machine())
    yield created
    created.close()


def kill_supervisor(bench: LocalBench, run_id: str) -> None:
    """Kill the supervisor of a run, as the kernel would."""
    os.kill(read_json(bench.data / "runs" / run_id / STATE)["pid"], signal.SIGKILL)


@pytest.mark.skipif(os.getuid() != 0, reason="NOT TESTED: only root gives runs user IDs of their own")
def test_run_that_is_started_twice_keeps_its_user(bench: LocalBench) -> None:
    launch = bench.start("r-twice", WAITS)
    before = Spec.load(bench.data / "runs" / "r-twice")
    bench.another_executor().start(launch)  # the supervisor has not written any state yet
    assert Spec.load(bench.data / "runs" / "r-twice").identity == before.identity
    bench.until("r-twice", Phase.RUNNING)


@pytest.mark.parametrize("serves", [False, True])
@pytest.mark.parametrize("restarted", [False, True])
def test_run_whose_folder_is_deleted_is_killed_and_reported(bench: LocalBench, restarted: bool, serves: bool) -> None:
    bench.start("r-deleted", SERVES if serves else WAITS, action="serve" if serves else "job")
    bench.until("r-deleted", Phase.RUNNING)
    executor = bench.another_executor() if restarted else bench.executor
    notified: list[str] = []
    bench.run_events.subscribe(notified.append, RunEvent.OBSERVED)
    folder = bench.data / "runs" / "r-deleted"
    while folder.exists():  # the supervisor may add a file during the deletion
        shutil.rmtree(folder, ignore_errors=True)
    wait_until(lambda: "r-deleted" in notified, seconds=5)
    observation = wait_for_phase(executor, "r-deleted")
    assert (observation.phase, observation.reason) == (Phase.FAILED, "FolderDeleted")
    assert observation.message == "the run's folder was deleted while the run was active, so the run was killed"
    wait_until(lambda: not list(find_processes_of(b"FAIRLEAD_RUN=r-deleted")), seconds=5)
    wait_until(lambda: is_over(bench.executor, "r-deleted"), seconds=5)  # also reaps the supervisor
    assert not folder.exists()


def test_run_with_a_killed_supervisor_fails_and_its_processes_end(bench: LocalBench) -> None:
    bench.start("r-lost", WAITS)
    bench.until("r-lost", Phase.RUNNING)
    pidfd = os.pidfd_open(read_json(bench.data / "runs" / "r-lost" / STATE)["pid"])
    kill_supervisor(bench, "r-lost")
    select.select([pidfd], [], [])
    os.close(pidfd)
    observation = bench.executor.observe("r-lost")  # immediately: there is no second notification
    assert observation is not None
    assert (observation.phase, observation.reason, observation.stopped) == (Phase.FAILED, "SupervisorLost", False)
    assert observation.started_at is not None
    assert observation.finished_at is not None
    wait_until(lambda: list(find_processes_of(b"FAIRLEAD_RUN=r-lost")) == [])
    assert bench.executor.nodes().nodes[0].pods == ()


def test_run_is_lost_after_a_reboot(bench: LocalBench) -> None:
    bench.start("r1", WAITS)
    bench.until("r1", Phase.RUNNING)
    kill_supervisor(bench, "r1")
    after = LocalExecutor(bench.data, replace(bench.machine, boot_id="another"), runtime(), RunEvents())
    wait_until(lambda: is_over(after, "r1"))
    observation = after.observe("r1")
    after.close()
    assert observation is not None
    assert (observation.phase, observation.reason) == (Phase.FAILED, "NodeLost")


def test_subscriber_is_notified_of_changes(bench: LocalBench) -> None:
    notified: list[str] = []
    bench.run_events.subscribe(notified.append, RunEvent.OBSERVED)
    bench.start("r1", RETURNS)
    wait_until(lambda: is_over(bench.executor, "r1") and len(notified) >= 2)
    assert set(notified) == {"r1"}


def test_new_executor_is_notified_when_a_run_ends(bench: LocalBench) -> None:
    bench.start("r1", WAITS)
    bench.until("r1", Phase.RUNNING)
    notified: list[str] = []
    bench.run_events = RunEvents()
    bench.run_events.subscribe(notified.append, RunEvent.OBSERVED)
    other = bench.another_executor()
    other.stop("r1")
    wait_until(lambda: notified == ["r1"])


def test_interrupted_start_is_repeated(bench: LocalBench) -> None:
    """The server was killed after it had created the folder but before it started a process."""
    launch = bench.start("r0", RETURNS)
    bench.until("r0", *ENDED)
    folder = bench.data / "runs" / "r1"
    folder.mkdir()
    (bench.data / "runs" / "r0" / SPEC).rename(folder / SPEC)
    (folder / "home").mkdir()
    assert bench.executor.observe("r1") is None
    bench.executor.start(replace(launch, execution_id=ExecutionId("r1")))
    assert bench.until("r1", *ENDED).phase is Phase.SUCCEEDED


def test_run_that_ignores_sigterm_is_killed_after_the_grace_period(
    bench: LocalBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Spec, "save", lambda self, folder: _save_with_short_grace(self, folder))
    bench.start("r1", IGNORES)
    bench.until("r1", Phase.RUNNING)
    wait_until(lambda: b"up" in read_all(bench.executor, "r1")["stdout"])
    bench.executor.stop("r1")
    observation = bench.until("r1", *ENDED)
    assert (observation.stopped, observation.exit_code) == (True, 137)


def _save_with_short_grace(spec: Spec, folder: Path) -> None:
    data = json.loads(json.dumps(spec, default=lambda part: part.__dict__))
    write_json(folder / SPEC, {**data, "grace": 0.3})


def test_secrets_are_written_to_no_file(bench: LocalBench) -> None:
    body = "import os\ndef main():\n    print(os.environ['TOKEN'])\n    raise ValueError(os.environ['TOKEN'])\n"
    bench.start("r1", body, secrets={"TOKEN": "hunter2"})
    observation = bench.until("r1", *ENDED)
    assert "hunter2" not in repr(observation)
    for file in bench.data.rglob("*"):
        if file.is_file() and file.name != "error.json":  # the run itself writes this file to its home folder
            assert b"hunter2" not in file.read_bytes(), file


def test_clean_up_leaves_only_the_output_folder(bench: LocalBench) -> None:
    bench.start("r1", LEAVES, volumes=[{"name": "d", "volume_type": "empty_dir", "mount_path": "/data"}])
    assert bench.until("r1", *ENDED).phase is Phase.SUCCEEDED
    bench.executor.clean_up("r1")
    folder = bench.data / "runs" / "r1"
    assert os.listdir(folder / "home") == ["output"]
    assert not {"volumes", "root", "code"} & set(os.listdir(folder))


@pytest.mark.skipif(os.getuid() != 0, reason="needs root")
def test_each_run_has_its_own_unprivileged_user(bench: LocalBench) -> None:
    for run_id in ("r1", "r2"):
        bench.start(run_id, WAITS)
    specs = [Spec.load(bench.data / "runs" / run_id) for run_id in ("r1", "r2")]
    first, second = (spec.identity.outer_uid for spec in specs)
    assert first is not None
    assert second is not None
    assert first != second
    assert min(first, second) >= 700_000
    for run_id in ("r1", "r2"):
        assert stat.S_IMODE((bench.data / "runs" / run_id / "home").stat().st_mode) == 0o700
        bench.until(run_id, Phase.RUNNING)


def test_gpus_are_exclusive_and_are_released(tmp_path: Path) -> None:
    machine = replace(this_machine(), gpus=(GpuDevice("GPU-a", "A100"), GpuDevice("GPU-b", "A100")))
    bench = LocalBench(tmp_path, machine)
    try:
        for run_id in ("r1", "r2"):
            bench.start(run_id, WAITS, resources={"gpu": 1})
        devices = [Spec.load(tmp_path / "runs" / run_id).devices for run_id in ("r1", "r2")]
        assert sorted(devices) == [["GPU-a"], ["GPU-b"]]
        bench.until("r1", Phase.RUNNING)
        bench.executor.stop("r1")
        bench.until("r1", *ENDED)
        bench.start("r3", RETURNS, resources={"gpu": 1})
        assert Spec.load(tmp_path / "runs" / "r3").devices == devices[0]
        bench.until("r3", *ENDED)
    finally:
        bench.close()


@pytest.mark.parametrize("target", [(allocation, "prepare_run"), (subprocess, "Popen")], ids=["files", "processes"])
def test_full_disk_is_a_temporary_error(
    bench: LocalBench, monkeypatch: pytest.MonkeyPatch, target: tuple[ModuleType, str]
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "no space left on device")

    with monkeypatch.context() as full:
        full.setattr(*target, fail)
        with pytest.raises(Unavailable):
            bench.executor.start(make_launch_spec("r1", RETURNS))
    assert bench.executor.nodes().nodes[0].pods == ()
    bench.executor.start(make_launch_spec("r1", RETURNS))
    assert bench.until("r1", *ENDED).phase is Phase.SUCCEEDED


def test_detected_capacity_can_be_overridden_by_settings(tmp_path: Path) -> None:
    machine = find_machine(tmp_path, {})
    assert machine.capacity["cpu"] == len(os.sched_getaffinity(0)) * 10**9
    assert machine.capacity["memory"] == find_memory() * 10**9
    assert machine.labels["kubernetes.io/os"] == "linux"
    assert machine.boot_id == read_boot_id()
    settings = {"mem": "64Gi", "gpu": "2", "runs": "3", "example.com/x": "1"}
    overridden = find_machine(tmp_path, {name: Quantity.parse(amount) for name, amount in settings.items()})
    expected = make_amounts(mem="64Gi", gpu=2, pods=3) | {"example.com/x": 10**9}
    assert {name: overridden.capacity[name] for name in expected} == expected
    assert len(overridden.gpus) == 2
    assert overridden.capacity["cpu"] == machine.capacity["cpu"]

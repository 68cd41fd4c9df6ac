"""Volumes never give access to another project's data, whatever their names and mount paths."""

import os
from pathlib import Path
from typing import Any

import pytest

from fairlead.errors import RequestRejected
from tests.adapters.local.making import this_machine
from tests.contracts.executors import LocalBench
from tests.processes.execution import wait_for_all, wait_for_end
from tests.security.neighbors import INTRUDER, OURS, THEIRS, Neighbors, shared_volume

pytestmark = pytest.mark.skipif(os.getuid() != 0, reason="NOT TESTED: only root runs each run as a separate user")

PASS = "def main():\n    pass\n"
LIST_AND_WRITE = """
import os

def main(name):
    existing = os.listdir("/d")
    open(f"/d/{name}", "w").close()
    return existing
"""
# Mount paths that would expose the machine's or the server's files.
SENSITIVE_PATHS = ["/dev/shm", "/procs", "/etc/x/y", "/var/run/x", "/opt"]
SUB_PATHS = ["..", "../x", "a/../../b", "/etc", "", "a\nb", "a\0b", "\u202e", "a/..", "../" * 30 + "etc"]
MOUNT_PATHS = ["/proc", "/proc/1", "/proc/self/root", "//proc/self/cwd/x", "/dev/fd/3"]
MOUNT_PATHS += ["/sys", "/sys/fs/cgroup", "/dev", "/dev/stdout/x", "/var/run", "/etc", "/usr/"]
MOUNT_PATHS += ["", "/", "//", "/.", "/..", "data", "../data", "/data/../..", "/a:b", "/a\0", "/a\nb", "/" + "x" * 5000]
NAMES = ["..", ".", "a/b", "../volumes", "/etc", "", "A", "a\0", "a\n", "a%2fb", "-a", "x" * 300]


def list_volume_ids(neighbors: Neighbors) -> list[str]:
    """The IDs of all existing volumes."""
    return sorted(folder.name for folder in (neighbors.platform.server.data / "volumes").iterdir())


def test_volumes_with_the_same_name_are_separate_per_project(neighbors: Neighbors) -> None:
    options: Any = {"volumes": [shared_volume("dataset", "/d")]}
    for project in (THEIRS, OURS):
        run = neighbors.submit(project, LIST_AND_WRITE, inputs={"name": f"of-{project}"}, **options)
        assert (wait_for_end(run)["state"], run.result) == ("completed", [])


def test_volume_of_another_project_cannot_be_claimed(neighbors: Neighbors) -> None:
    running, _ = neighbors.tenants
    volume_ids = list_volume_ids(neighbors)
    assert volume_ids
    for claim in (
        "bravo-volume",
        "BRAVO-VOLUME",
        *volume_ids,
        *(f"../{volume_id}" for volume_id in volume_ids),
        f"../runs/{running.id}/home",
    ):
        with pytest.raises(RequestRejected) as rejected:
            neighbors.submit(OURS, PASS, volumes=[shared_volume(claim, "/d")])
        assert [violation.path for violation in rejected.value.violations] == ["volumes.shared.spec.claim_name"]


@pytest.mark.parametrize("sub_path", SUB_PATHS)
def test_sub_path_outside_the_volume_is_rejected(neighbors: Neighbors, sub_path: str) -> None:
    with pytest.raises(RequestRejected) as rejected:
        neighbors.submit(OURS, PASS, volumes=[shared_volume("dataset", "/d", sub_path=sub_path)])
    assert [violation.path for violation in rejected.value.violations] == ["volumes.shared.sub_path"]


@pytest.mark.parametrize("path", MOUNT_PATHS, ids=lambda path: repr(path[:20]))
def test_unsafe_mount_path_is_rejected(neighbors: Neighbors, path: str) -> None:
    with pytest.raises(RequestRejected) as rejected:
        neighbors.submit(OURS, PASS, volumes=[shared_volume("dataset", path)])
    assert [violation.path for violation in rejected.value.violations] == ["volumes.shared.mount_path"]


@pytest.mark.parametrize("name", NAMES, ids=lambda name: repr(name[:20]))
def test_unsafe_volume_name_is_rejected(neighbors: Neighbors, name: str) -> None:
    with neighbors.client(OURS) as client:
        response = client.post("/projects/alpha/volumes", json={"name": name, "size": "1Gi"})
    assert response.status_code in (400, 422), response.text


def test_mounting_over_any_path_exposes_and_changes_nothing(neighbors: Neighbors) -> None:
    data, (running, _) = neighbors.platform.server.data, neighbors.tenants
    data_paths = [
        str(data),
        f"{data}/runs",
        f"{data}/runs/{running.id}/home",
        f"{data}/volumes/{list_volume_ids(neighbors)[0]}",
    ]
    before = describe_machine(data)
    known = {**neighbors.known, "attacks": ["read_files", "walk_folders", "read_proc"]}
    volumes = [
        {"volume_type": "empty_dir", "name": "v", "mount_path": path} for path in [*SENSITIVE_PATHS, *data_paths]
    ]
    runs = [neighbors.submit(OURS, INTRUDER.read_text("utf-8"), inputs=known, volumes=[volume]) for volume in volumes]
    for run, ended, volume in zip(runs, wait_for_all(runs, 240), volumes, strict=True):
        if ended["state"] == "completed":
            assert not any(run.result.values()), volume
        else:
            assert (ended["reason"], neighbors.mark in ended["message"]) == ("StartFailed", False), volume
    assert describe_machine(data) == before


def test_symlinks_on_a_volume_expose_nothing_to_the_next_run(neighbors: Neighbors) -> None:
    data, (running, _) = neighbors.platform.server.data, neighbors.tenants
    targets = [str(data), f"{data}/volumes", f"{data}/runs/{running.id}/home/output", "/proc/1/root", "/proc/1/cwd"]
    link_script = (
        "import os\ndef main(targets):\n    for n, path in enumerate(targets):\n        os.symlink(path, f'/d/{n}')\n"
    )
    volumes = [shared_volume("alpha-volume", "/d")]
    assert (
        wait_for_end(neighbors.submit(OURS, link_script, inputs={"targets": targets}, volumes=volumes))["state"]
        == "completed"
    )
    list_script = "import os\ndef main():\n    return [list(os.walk(f'/d/{n}')) for n in range(5)]\n"
    run = neighbors.submit(OURS, list_script, volumes=volumes)
    assert wait_for_end(run)["state"] == "completed"
    assert neighbors.mark not in str(run.result)
    assert [[entry for entry in walked if entry[1] or entry[2]] for walked in run.result] == [[]] * 5
    for number in range(5):
        part = shared_volume("alpha-volume", "/d", sub_path=f"{number}/deeper")
        assert wait_for_end(neighbors.submit(OURS, PASS, volumes=[part]))["reason"] == "StartFailed"


def test_removal_does_not_follow_symlinks(tmp_path: Path) -> None:
    """The server runs as root and deletes run files."""
    canary = tmp_path / "canary"
    (canary / "inner").mkdir(parents=True)
    (canary / "inner" / "kept").write_text("kept")
    bench = LocalBench(tmp_path / "data", this_machine())
    for folder in ("volumes/v1", "runs/r1/volumes/v", "runs/r1/home/deep", "runs/r1/home/output", "runs/r1/code"):
        (tmp_path / "data" / folder).mkdir(parents=True)
        for name, target in (("folder", canary), ("inner", canary / "inner"), ("file", canary / "inner" / "kept")):
            (tmp_path / "data" / folder / name).symlink_to(target)
    (tmp_path / "data" / "runs" / "r1" / "home" / "link").symlink_to(canary)
    bench.executor.clean_up("r1")
    bench.executor.remove_volume("v1")
    bench.executor.delete_run("r1")
    bench.close()
    assert [list((tmp_path / "data" / name).iterdir()) for name in ("runs", "volumes")] == [[], []]
    assert (canary / "inner" / "kept").read_text() == "kept"


def describe_machine(data: Path) -> tuple[list[str], str]:
    """A snapshot of folders and mounts that a run must not change."""
    folders = ["/", "/etc", "/opt", "/mnt", str(data), str(data / "volumes")]
    paths = [f"{folder}/{name}" for folder in folders for name in sorted(os.listdir(folder))]
    return [path for path in paths if not path.endswith(("-wal", "-shm"))], Path("/proc/self/mountinfo").read_text()

"""Volumes on a real server: mounts, permissions and lifetime."""

import os
import signal
from typing import Any

import pytest

from fairlead.sdk.projects import Project
from tests.processes.execution import (
    Platform,
    find_processes,
    list_files,
    read_files,
    until,
    wait_for_end,
    wait_for_output,
)


@pytest.fixture(scope="module", autouse=True)
def volumes(platform: Platform) -> None:
    """Two project volumes."""
    platform.project.create_volume("dataset", "1Gi")
    platform.project.create_volume("models", "1Gi")


def volume(kind: str, name: str, path: str, /, **spec: Any) -> dict[str, Any]:
    """A volume in a request."""
    return {"volume_type": kind, "name": name, "mount_path": path, "spec": spec}


@pytest.mark.parametrize(
    "requested",
    [
        volume("persistent_volume_claim", "data", "/data", size="1Gi"),
        volume("ephemeral", "data", "/opt/data/deep", size="1Gi"),
        volume("empty_dir", "data", "/var/data"),
        volume("empty_dir", "data", "/usr/share/data"),
    ],
    ids=lambda requested: requested["mount_path"],
)
def test_ephemeral_volume_is_writable_and_removed_with_the_run(platform: Platform, requested: dict[str, Any]) -> None:
    path = requested["mount_path"]
    run = platform.shell(f"echo hello > {path}/file && cat {path}/file; ls -A {path}/..", volumes=[requested])
    assert wait_for_end(run)["state"] == "completed"
    assert run.logs().startswith("hello\n")
    # Cleanup happens after the run is reported as ended. Deleting the code is its last step.
    until(lambda: not (platform.folder_of(run) / "code").exists())
    assert "file" not in [file.name for file in list_files(platform.folder_of(run))]
    after = platform.shell(f"cat {path}/file")
    assert "No such file" in wait_for_end(after)["message"]


def test_shared_volume_keeps_files_for_later_runs_and_other_users(platform: Platform) -> None:
    volumes = [volume("shared_volume", "v", "/shared", claim_name="dataset")]
    assert wait_for_end(
        platform.shell("echo one > /shared/file; mkdir /shared/folder; touch /shared/folder/x", volumes=volumes)
    )
    second = platform.shell(
        "cat /shared/file; echo two >> /shared/file; touch /shared/folder/y; ls /shared/folder", volumes=volumes
    )
    assert (wait_for_end(second)["state"], second.logs()) == ("completed", "one\nx\ny\n")
    third = platform.shell("cat /shared/file", volumes=volumes, run_as_user=4321)
    assert (wait_for_end(third)["state"], third.logs()) == ("completed", "one\ntwo\n")


@pytest.mark.skipif(os.getuid() != 0, reason="NOT TESTED: only root runs each project with its own group")
def test_renamed_project_keeps_access_to_the_files_on_its_volume(platform: Platform) -> None:
    api = platform.project.api
    api.post("/projects", {"name": "before"})
    Project(api, "before").create_volume("papers", "1Gi")
    volumes = [volume("shared_volume", "v", "/papers", claim_name="papers")]

    def run(project: str, script: str) -> dict[str, Any]:
        function = Project(api, project).function("shell", command=["bash", "-c", script])
        return wait_for_end(function.run(volumes=volumes))

    script = "umask 007; echo one > /papers/file; stat -c %a /papers/file"
    assert run("before", script)["state"] == "completed"
    api.patch("/projects/before", {"name": "after"})
    assert run("after", "grep one /papers/file && echo two >> /papers/file")["state"] == "completed"
    api.post("/projects", {"name": "before"})
    Project(api, "before").create_volume("papers", "1Gi")
    assert run("before", "ls /papers/file")["state"] == "failed"


def test_two_runs_use_a_shared_volume_concurrently(platform: Platform) -> None:
    volumes = [volume("shared_volume", "v", "/shared", claim_name="models")]
    first = platform.shell("until [ -e /shared/go ]; do sleep 0.05; done", volumes=volumes)
    second = platform.shell("touch /shared/go", volumes=volumes)
    assert [wait_for_end(run)["state"] for run in (second, first)] == ["completed", "completed"]


def test_read_only_volume_rejects_writes(platform: Platform) -> None:
    volumes = [volume("shared_volume", "v", "/shared", claim_name="models")]
    assert wait_for_end(platform.shell("echo text > /shared/file", volumes=volumes))["state"] == "completed"
    read_only = volumes[0] | {"read_only": True}
    run = platform.shell("cat /shared/file; echo other > /shared/file", volumes=[read_only])
    assert "Read-only file system" in wait_for_end(run)["message"]
    assert "text\n" in run.logs()


def test_secret_volume_is_private_to_the_run_and_not_on_disk(platform: Platform) -> None:
    platform.project.set_secret("CERTIFICATE", "hush-hush\nquiet")
    volumes = [volume("secret", "cert", "/certificates", name="CERTIFICATE")]
    script = "cd /certificates; stat -c %a CERTIFICATE; wc -c < CERTIFICATE; cat CERTIFICATE; echo; ls -A"
    run = platform.shell(f"{script}; echo x > other", volumes=volumes)
    assert "Read-only file system" in wait_for_end(run)["message"]
    assert run.logs().startswith("400\n15\n***\nCERTIFICATE\n")
    for file, content in read_files(platform.folder_of(run)):
        assert b"hush-hush" not in content, file


def test_memory_volume_has_the_requested_size(platform: Platform) -> None:
    volumes = [volume("empty_dir", "cache", "/cache", medium="Memory", size="16Mi")]
    run = platform.shell(
        "df -B1 --output=fstype,size /cache | tail -1; head -c 32M /dev/zero > /cache/x", volumes=volumes
    )
    assert "No space left on device" in wait_for_end(run)["message"]
    assert run.logs().split()[:2] == ["tmpfs", str(16 << 20)]


def test_shared_memory_has_the_requested_size(platform: Platform) -> None:
    run = platform.shell("df -B1 --output=size /dev/shm | tail -1", resources={"shm": "32Mi"})
    assert wait_for_end(run)["state"] == "completed"
    assert run.logs().strip() == str(32 << 20)


def test_volume_mounted_over_a_host_folder_does_not_change_it(platform: Platform) -> None:
    volumes = [volume("empty_dir", "etc", "/etc/fairlead-test"), volume("empty_dir", "mnt", "/mnt")]
    run = platform.shell("touch /mnt/mine /etc/fairlead-test/mine; ls /mnt; cat /etc/hostname", volumes=volumes)
    assert wait_for_end(run)["state"] == "completed"
    assert run.logs().startswith("mine\n")
    other_run = platform.shell("ls -d /etc/fairlead-test /mnt/mine")
    assert wait_for_end(other_run)["state"] == "failed"


def test_nested_volume_is_mounted_at_its_path(platform: Platform) -> None:
    volumes = [volume("empty_dir", "outer", "/outer"), volume("empty_dir", "inner", "/outer/inner", medium="Memory")]
    run = platform.shell("touch /outer/a /outer/inner/b; find /outer -type f | sort", volumes=volumes)
    assert (wait_for_end(run)["state"], run.logs()) == ("completed", "/outer/a\n/outer/inner/b\n")


def test_volume_is_removed_after_the_supervisor_is_killed(platform: Platform) -> None:
    volumes = [volume("empty_dir", "data", "/data")]
    run = platform.shell("echo x > /data/file; echo up; sleep 60", volumes=volumes)
    wait_for_output(run, "up")
    os.kill(platform.supervisor_of(run), signal.SIGKILL)
    assert wait_for_end(run)["reason"] == "SupervisorLost"
    assert find_processes(run.id) == []
    # The folder is cleaned up shortly after the run ends.
    until(lambda: "file" not in [file.name for file in list_files(platform.folder_of(run))])

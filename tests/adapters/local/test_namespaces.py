"""Isolation of runs: their own mounts, processes and IDs, without changes to the machine."""

import os
import tempfile
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fairlead.adapters.local.machines import find_isolation_error
from fairlead.model.runs import Observation, Phase
from tests.adapters.local.making import this_machine
from tests.contracts.executors import ENDED, LocalBench

pytestmark = pytest.mark.skipif(
    find_isolation_error() is not None, reason=f"no namespaces here: {find_isolation_error()}"
)

CLAIM: dict[str, Any] = {"name": "sets", "volume_type": "shared_volume", "spec": {"claim_name": "sets"}}
SHARED = {"sets": "v1"}


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[LocalBench]:
    """An executor with real runs."""
    created = LocalBench(tmp_path / "data", this_machine())
    yield created
    created.close()


@pytest.fixture
def host_folder() -> Iterator[Path]:
    """A folder on the machine that all users can read, and that is not replaced in runs."""
    with tempfile.TemporaryDirectory(dir="/var/lib") as folder:
        os.chmod(folder, 0o755)
        yield Path(folder)


def execute(bench: LocalBench, body: str, run_id: str = "r1", **request: Any) -> Observation:
    """Run a function with this body, and return its last observation."""
    source = "import os, sys, json\ndef main():\n" + textwrap.indent(textwrap.dedent(body).strip(), "    ") + "\n"
    bench.start(run_id, source, **request)
    return bench.until(run_id, *ENDED)


def run_body(bench: LocalBench, body: str, run_id: str = "r1", **request: Any) -> Any:
    """Run a function with this body, and return its result."""
    observation = execute(bench, body, run_id, **request)
    assert observation.result is not None, observation
    return observation.result["value"]


def empty(name: str, path: str, **fields: Any) -> dict[str, Any]:
    """An empty volume that is deleted with the run."""
    return {"name": name, "volume_type": "empty_dir", "mount_path": path, **fields}


def test_volume_is_mounted_at_its_path_and_removed_with_the_run(bench: LocalBench, tmp_path: Path) -> None:
    body = "open('/data/x', 'w').write('1'); return os.listdir('/data')"
    assert run_body(bench, body, volumes=[empty("data", "/data")]) == ["x"]
    assert not Path("/data/x").exists()
    bench.executor.clean_up("r1")
    assert not (tmp_path / "data" / "runs" / "r1" / "volumes").exists()


def test_mounts_can_be_nested_in_any_order(bench: LocalBench, tmp_path: Path) -> None:
    volumes = [empty("c", "/data/a/b/c"), empty("a", "/data/a"), empty("z", "/data-z"), empty("data", "/data")]
    body = """
        for path in ('/data', '/data/a', '/data/a/b/c', '/data-z'):
            open(f'{path}/here', 'w').write(path)
    """
    run_body(bench, body, volumes=volumes)
    volumes_folder = tmp_path / "data" / "runs" / "r1" / "volumes"
    files = {str(file.relative_to(volumes_folder)): file.read_text() for file in volumes_folder.rglob("here")}
    assert files == {"data/here": "/data", "a/here": "/data/a", "c/here": "/data/a/b/c", "z/here": "/data-z"}


def test_mount_below_a_host_folder_does_not_change_the_host(bench: LocalBench, host_folder: Path) -> None:
    (host_folder / "sub").mkdir()
    (host_folder / "file").write_text("file")
    (host_folder / "link").symlink_to("file")
    before = sorted(os.listdir(host_folder)), sorted(os.listdir("/opt")), sorted(os.listdir("/"))
    volumes = [
        empty("one", f"{host_folder}/new/deep"),
        empty("two", "/opt/fairlead-test"),
        empty("three", "/fairlead-test"),
    ]
    body = f"""
        for path in ('{host_folder}/new/deep', '/opt/fairlead-test', '/fairlead-test'):
            open(f'{{path}}/x', 'w').write('1')
        return sorted(os.listdir('{host_folder}')), open('{host_folder}/link').read()
    """
    result = run_body(bench, body, volumes=volumes)
    assert result == [["file", "link", "new", "sub"], "file"]
    assert (sorted(os.listdir(host_folder)), sorted(os.listdir("/opt")), sorted(os.listdir("/"))) == before


def test_mount_path_through_a_host_symlink_works(bench: LocalBench) -> None:
    """/var/run is a symlink to /run on most machines, and a common folder for secrets."""
    path = "/var/run/fairlead-test/s"
    volumes = [{"name": "s", "volume_type": "secret", "mount_path": path, "spec": {"name": "TOKEN"}}]
    body = f"return open('{path}/TOKEN').read() == os.environ['TOKEN']"
    assert run_body(bench, body, volumes=volumes, secrets={"TOKEN": "hunter2"}) is True
    assert not Path("/run/fairlead-test").exists()


def test_read_only_mounts_cannot_be_written(bench: LocalBench, tmp_path: Path) -> None:
    run_body(bench, "open('/data/x', 'w').write('1')", volumes=[{**CLAIM, "mount_path": "/data"}], shared=SHARED)
    body = """
        try:
            open('/data/y', 'w')
        except OSError as error:
            return os.listdir('/data'), error.errno
    """
    read_only = [{**CLAIM, "mount_path": "/data", "read_only": True}]
    assert run_body(bench, body, "r2", volumes=read_only, shared=SHARED) == [["x"], 30]
    for path in ("/etc/fairlead/x", "/etc/x", "/x"):
        assert execute(bench, f"open('{path}', 'w')", f"r{path.replace('/', '')}").phase is Phase.FAILED
        assert not Path(path).exists()


def test_memory_volume_has_the_requested_size(bench: LocalBench) -> None:
    body = """
        try:
            open('/fast/x', 'wb').write(b'x' * (8 << 20))
        except OSError as error:
            return error.errno
    """
    assert run_body(bench, body, volumes=[empty("fast", "/fast", spec={"medium": "Memory", "size": "4Mi"})]) == 28


def test_secret_file_is_readable_only_by_its_run(bench: LocalBench, tmp_path: Path) -> None:
    volumes = [{"name": "s", "volume_type": "secret", "mount_path": "/s", "spec": {"name": "TOKEN"}}]
    body = """
        mode = os.stat('/s/TOKEN').st_mode & 0o777
        return open('/s/TOKEN').read()[::-1], mode, os.listdir('/s')
    """
    assert run_body(bench, body, volumes=volumes, secrets={"TOKEN": "hunter2"}) == ["2retnuh", 0o400, ["TOKEN"]]
    for file in (tmp_path / "data").rglob("*"):
        assert not file.is_file() or b"hunter2" not in file.read_bytes(), file


def test_run_sees_only_its_own_processes_and_ids(bench: LocalBench) -> None:
    body = """
        processes = [name for name in os.listdir('/proc') if name.isdigit()]
        return len(processes), os.getuid(), os.getgid(), os.getcwd().startswith('/fairlead'), os.environ['HOME']
    """
    assert run_body(bench, body, run_as_user=1234, run_as_group=4321) == [2, 1234, 4321, True, "/fairlead"]


def test_run_cannot_see_the_server_data_and_other_runs(bench: LocalBench, tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    (tmp_path / "data" / "fairlead.db").write_text("private")
    body = f"""
        try:
            return os.listdir('{tmp_path / "data"}')
        except OSError as error:
            return []
    """
    assert run_body(bench, body) == []


def test_run_gains_no_privileges(bench: LocalBench) -> None:
    body = "return [line.split()[1] for line in open('/proc/self/status') if line.startswith(('CapEff', 'NoNewPrivs'))]"
    assert run_body(bench, body) == ["0000000000000000", "1"]


# The contents of a shared volume are not trusted, because other runs write to it.


def test_symlinked_sub_path_is_rejected(bench: LocalBench, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.mkdir(mode=0o700)
    (victim / "private").write_text("private")
    before = victim.stat()
    run_body(bench, f"os.symlink('{victim}', '/data/x')", volumes=[{**CLAIM, "mount_path": "/data"}], shared=SHARED)
    linked = [{**CLAIM, "mount_path": "/data", "sub_path": "x"}]
    observation = execute(bench, "return os.listdir('/data')", "r2", volumes=linked, shared=SHARED)
    assert (observation.phase, observation.reason) == (Phase.FAILED, "StartFailed")
    assert "/data" in observation.message
    after = victim.stat()
    assert (after.st_mode, after.st_uid, after.st_gid) == (before.st_mode, before.st_uid, before.st_gid)


@pytest.mark.parametrize("path", ["/data/x/made", "/data/x"])
def test_mount_below_a_symlink_in_a_volume_creates_nothing_elsewhere(
    bench: LocalBench, tmp_path: Path, path: str
) -> None:
    victim = tmp_path / "victim"
    victim.mkdir()
    volume = {**CLAIM, "mount_path": "/data"}
    run_body(bench, f"os.symlink('{victim}', '/data/x')", volumes=[volume], shared=SHARED)
    execute(bench, "pass", "r2", volumes=[volume, empty("e", path)], shared=SHARED)
    assert os.listdir(victim) == []


def test_sub_path_is_created_and_reused(bench: LocalBench) -> None:
    volumes = [{**CLAIM, "mount_path": "/data", "sub_path": "models/base"}]
    run_body(bench, "open('/data/x', 'w').write('1')", volumes=volumes, shared=SHARED)
    assert run_body(bench, "return os.listdir('/data')", "r2", volumes=volumes, shared=SHARED) == ["x"]
    without_sub_path = [{**CLAIM, "mount_path": "/data"}]
    assert run_body(bench, "return os.listdir('/data/models/base')", "r3", volumes=without_sub_path, shared=SHARED) == [
        "x"
    ]


def test_runs_of_a_project_share_a_volume_as_different_users(bench: LocalBench) -> None:
    volumes = [{**CLAIM, "mount_path": "/data"}]
    run_body(bench, "os.mkdir('/data/d'); open('/data/d/x', 'w').write('1')", volumes=volumes, shared=SHARED)
    body = "open('/data/d/x', 'a').write('2'); open('/data/d/y', 'w'); return open('/data/d/x').read()"
    assert run_body(bench, body, "r2", volumes=volumes, shared=SHARED) == "12"


def test_sub_path_created_by_one_run_is_writable_for_the_next(bench: LocalBench) -> None:
    part = [{**CLAIM, "mount_path": "/data", "sub_path": "models/base"}]
    above = [{**CLAIM, "mount_path": "/data", "sub_path": "models"}]
    run_body(bench, "open('/data/x', 'w').write('1')", volumes=part, shared=SHARED)
    run_body(bench, "open('/data/y', 'w').write('2')", "r2", volumes=part, shared=SHARED)
    run_body(bench, "open('/data/z', 'w').write('3')", "r3", volumes=above, shared=SHARED)

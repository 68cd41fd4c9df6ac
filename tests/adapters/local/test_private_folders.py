"""Folders that each run has for itself: temporary files, shared memory, devices; and the network of a run."""

import errno
import os
import socket
import sys
import textwrap
from pathlib import Path

import pytest

from fairlead.adapters.local.allocation import find_runtime
from fairlead.adapters.local.executor import LocalExecutor
from fairlead.adapters.local.machines import find_isolation_error
from fairlead.model.runs import Phase
from tests.adapters.local.making import make_launch_spec, runtime
from tests.adapters.local.test_namespaces import bench, empty, execute, run_body  # noqa: F401
from tests.contracts.executors import ENDED, LocalBench

pytestmark = pytest.mark.skipif(
    find_isolation_error() is not None, reason=f"no namespaces here: {find_isolation_error()}"
)

FILL = """
    file = open('{path}', 'wb')
    {delete}
    for _ in range(96):
        file.write(b'x' * (1 << 20))
    file.flush()
    import time
    time.sleep(20)
"""


def list_interpreter_entries(folder: str) -> list[str]:
    """The names in a temporary folder through which runs see their interpreter, if it is installed there."""
    return [Path(path).relative_to(folder).parts[0] for path in runtime().paths if Path(path).is_relative_to(folder)]


@pytest.mark.parametrize("folder", ["/tmp", "/var/tmp", "/dev/shm"])
def test_temporary_files_belong_to_the_run_and_are_deleted_with_it(
    bench: LocalBench,  # noqa: F811
    folder: str,
) -> None:
    planted = Path(folder, f"planted-{os.getpid()}")
    planted.write_text("other")
    try:
        body = f"open('{folder}/mine', 'w').write('1'); return os.listdir('{folder}')"
        names = {"mine", *list_interpreter_entries(folder)}
        assert set(run_body(bench, body)) == names
        assert set(run_body(bench, body, "r2")) == names
    finally:
        planted.unlink()
    assert not Path(folder, "mine").exists()
    bench.executor.clean_up("r1")
    assert not (bench.data / "runs" / "r1" / "temporary").exists()


@pytest.mark.parametrize("path", ["/tmp", "/tmp/nested", "/dev/shm", "/dev/shm/nested"])
@pytest.mark.parametrize("medium", ["", "Memory"])
def test_volume_replaces_a_temporary_folder(bench: LocalBench, path: str, medium: str) -> None:  # noqa: F811
    volumes = [empty("data", path, spec={"medium": medium, "size": "4Mi"} if medium else {})]
    body = f"open('{path}/x', 'w').write('1'); return os.listdir('{path}'), os.statvfs('{path}').f_blocks * 4096"
    names, size = run_body(bench, body, volumes=volumes)
    assert (set(names), size == 4 << 20) == ({"x", *list_interpreter_entries(path)}, medium == "Memory")
    assert (bench.data / "runs" / "r1" / "volumes" / "data" / "x").exists() == (not medium)


@pytest.mark.parametrize("folder", ["/tmp", "/var/tmp", "{home}"])
@pytest.mark.parametrize("delete", ["", "os.unlink(file.name)"])
def test_files_count_as_disk_usage_even_if_deleted(bench: LocalBench, folder: str, delete: str) -> None:  # noqa: F811
    body = FILL.format(path=folder.format(home="/fairlead") + "/x", delete=delete or "pass")
    observation = execute(bench, body, resources={"disk": {"limits": "32Mi"}})
    assert (observation.phase, observation.reason) == (Phase.FAILED, "Evicted"), observation


def test_shared_memory_is_limited_to_the_memory_limit(bench: LocalBench) -> None:  # noqa: F811
    body = "status = os.statvfs('/dev/shm'); return status.f_blocks * status.f_frsize"
    assert run_body(bench, body, resources={"mem": {"limits": "256Mi"}}) == 256 << 20


def test_run_sees_only_devices_for_programs(bench: LocalBench) -> None:  # noqa: F811
    devices = ["fd", "full", "null", "ptmx", "pts", "random", "shm", "stderr", "stdin", "stdout", "tty", "urandom"]
    assert run_body(bench, "return sorted(os.listdir('/dev'))") == [*devices, "zero"]
    body = """
        import pty
        leader, follower = os.openpty()
        os.write(follower, b'x')
        return os.read(leader, 1).decode(), os.ttyname(follower), os.listdir('/dev/pts')
    """
    assert run_body(bench, body, "r2") == ["x", "/dev/pts/0", ["0", "ptmx"]]


@pytest.mark.parametrize("folder", ["/sys/fs/cgroup", "/run"])
def test_control_groups_and_sockets_of_the_machine_are_hidden(bench: LocalBench, folder: str) -> None:  # noqa: F811
    assert run_body(bench, f"return os.listdir('{folder}')") == []


def test_run_without_a_network_has_only_its_own_loopback(bench: LocalBench) -> None:  # noqa: F811
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        body = f"""
            import socket
            own = socket.create_server(('127.0.0.1', 0))
            socket.create_connection(own.getsockname()).close()
            other = socket.socket().connect_ex(('127.0.0.1', {port}))
            return [name for _, name in socket.if_nameindex()], os.strerror(other)
        """
        launch = make_launch_spec("r1", f"import os\ndef main():\n{textwrap.indent(textwrap.dedent(body), '    ')}")
        object.__setattr__(launch.demand, "network", "none")
        bench.executor.start(launch)
        result = bench.until("r1", *ENDED).result
    assert result is not None
    assert result["value"] == [["lo"], "Connection refused"]


def test_readable_paths_in_a_hidden_folder_are_visible_and_read_only(bench: LocalBench) -> None:  # noqa: F811
    data = bench.data / "sets"
    data.mkdir()
    (data / "x").write_text("1")
    python = find_runtime(Path(sys.executable), os.environ, [data])
    bench.executor = LocalExecutor(bench.data, bench.machine, python, bench.run_events)
    bench.opened.append(bench.executor)
    body = f"""
        try:
            open('{data}/y', 'w')
        except OSError as error:
            return os.listdir('{bench.data}'), open('{data}/x').read(), error.errno
    """
    assert run_body(bench, body) == [["sets"], "1", errno.EROFS]

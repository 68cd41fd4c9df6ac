"""Landlock rules: the files that a run may use without namespaces, and the scope of its signals and sockets."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from fairlead.adapters.local import landlock
from fairlead.adapters.local.specs import Spec, UserMapping

pytestmark = pytest.mark.skipif(
    landlock.find_abi() < landlock.SCOPES_ABI, reason="NOT TESTED: this kernel has no or an older Landlock"
)

PROGRAM = """
import os, sys
from pathlib import Path
from fairlead.adapters.local import landlock, namespaces
from fairlead.adapters.local.specs import Spec
namespaces.prctl(namespaces.PR_SET_NO_NEW_PRIVS, 1)
landlock.restrict(Spec.load(Path(sys.argv[1])))
del sys.path[:1]
exec(sys.argv[2])
"""


@pytest.fixture
def data() -> Iterator[Path]:
    """A data folder with the folder of a run, outside of /tmp, which runs without namespaces share."""
    with tempfile.TemporaryDirectory(dir="/var/lib") as folder:
        for path in ("runs/r1/home/output", "runs/r1/code", "runs/r2/home"):
            Path(folder, path).mkdir(parents=True)
        Path(folder, "token").write_text("secret")
        Path(folder, "runs/r1/code/main.py").write_text("code")
        Path(folder, "runs/r2/home/notes").write_text("secret")
        yield Path(folder)


def restricted(data: Path, statement: str, *, isolated: bool = False, hidden: tuple[str, ...] = ()) -> str:
    """Execute a statement with a run's restrictions; return what it prints, or its error."""
    home = data / "runs" / "r1" / "home"
    revealed = [path for path in {*sys.path, sys.prefix, sys.base_prefix} if path]
    identity = UserMapping(os.getuid(), os.getgid())
    spec = Spec(
        "r1", "p", "r1", "b", ["x"], {}, "/", str(home), identity,
        isolated=isolated, revealed=revealed, hidden=[str(data), *hidden],
    )  # fmt: skip
    spec.save(data)
    command = [sys.executable, "-c", PROGRAM, str(data), statement]
    completed = subprocess.run(command, capture_output=True, text=True, check=False, cwd=home)
    return completed.stdout.strip() or (completed.stderr.strip().splitlines() or [""])[-1]


@pytest.mark.parametrize("path", ["", "/token", "/spec.json", "/runs/r1/log", "/runs/r2/home/notes"])
def test_data_folder_and_other_runs_are_not_readable(data: Path, path: str) -> None:
    (data / "runs" / "r1" / "log").write_text("secret")
    assert "PermissionError" in restricted(data, f"print(os.open('{data}{path}', os.O_RDONLY))")


def test_home_folder_of_the_server_user_is_not_accessible(data: Path) -> None:
    assert "PermissionError" in restricted(data, f"print(os.listdir('{Path.home()}'))")
    assert "PermissionError" in restricted(data, f"open('{Path.home()}/.planted', 'w')")


def test_own_folder_is_writable_and_own_code_is_readable(data: Path) -> None:
    home = data / "runs" / "r1" / "home"
    statement = f"""
        os.mkdir('{home}/d'); open('{home}/d/x', 'w').write('1'); os.rename('{home}/d/x', '{home}/output/x')
        os.truncate('{home}/output/x', 0); os.symlink('x', '{home}/link'); os.unlink('{home}/link')
        print(open('{data}/runs/r1/code/main.py').read(), os.listdir('{home}/output'))"""
    assert restricted(data, "if True:" + statement) == "code ['x']"
    assert "PermissionError" in restricted(data, f"open('{data}/runs/r1/code/main.py', 'w')")


def test_system_folders_devices_and_temporary_folders_work(data: Path) -> None:
    statement = """
        import pty, ssl, subprocess, tempfile
        subprocess.run(['sh', '-c', 'ls /usr >/dev/null; head -c 1 /dev/urandom >/dev/null'], check=True)
        os.close(os.openpty()[0])
        for folder in ('/tmp', '/var/tmp', '/dev/shm'):
            tempfile.TemporaryFile(dir=folder).write(b'x')
        print(open('/etc/hosts').read() != '', os.path.exists('/proc/self/status'))"""
    assert restricted(data, "if True:" + statement) == "True True"
    assert "PermissionError" in restricted(data, "open('/etc/planted', 'w')")


def test_hidden_folder_inside_a_shared_one_is_not_readable(data: Path) -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        Path(folder, "hidden").mkdir()
        Path(folder, "hidden", "token").write_text("secret")
        Path(folder, "notes").write_text("shared")
        hidden = (f"{folder}/hidden",)
        assert "PermissionError" in restricted(data, f"print(open('{folder}/hidden/token').read())", hidden=hidden)
        assert restricted(data, f"print(open('{folder}/notes').read())", hidden=hidden) == "shared"


@pytest.mark.parametrize("isolated", [True, False])
def test_signals_and_abstract_sockets_stay_within_the_run(data: Path, isolated: bool) -> None:
    statement = """
        import signal, socket, subprocess
        child = subprocess.Popen(['sleep', '60'])
        child.kill()
        print(child.wait())
        listener = socket.socket(socket.AF_UNIX)
        listener.bind('')
        listener.listen()
        socket.socket(socket.AF_UNIX).connect(listener.getsockname())
        print(os.fork() or 'connected', end=' ')"""
    assert restricted(data, "if True:" + statement, isolated=isolated).startswith("-9\n")
    assert "PermissionError" in restricted(data, f"os.kill({os.getpid()}, 0)", isolated=isolated)

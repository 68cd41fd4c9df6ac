"""Helpers that submit runs to real servers, wait for them, inspect them, and clean up."""

import contextlib
import json
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, Unpack

from fairlead.adapters.local.cgroups import Cgroup
from fairlead.model.requests import Action
from fairlead.sdk.api_client import ApiClient
from fairlead.sdk.functions import RunParameters
from fairlead.sdk.projects import Project
from fairlead.sdk.runs import Run
from tests.adapters.local.making import this_machine
from tests.processes.machines import TIMEOUT, Machine, RunningServer, Variables

T = TypeVar("T")


@dataclass(frozen=True)
class Platform:
    """A server that executes runs, and a folder that is writable by every run."""

    server: RunningServer
    shared: Path

    @property
    def project(self) -> Project:
        """The default project."""
        # With the data folder, the client accepts a server of that folder's owner.
        data = self.server.data if self.server.data.stat().st_uid else None
        return Project(ApiClient(self.server.url, self.server.token, data), "default")

    def allow(self, **switches: Any) -> None:
        """Set switches in the platform policy."""
        self.project.api.put("/policies/platform/platform", {"switches": switches})

    def shell(self, text: str, **parameters: Unpack[RunParameters]) -> Run:
        """Submit a run of a shell script."""
        return self.project.function("shell", command=["bash", "-c", text]).run(**parameters)

    def python(
        self, text: str, handler: str | None = None, action: Action = "job", **parameters: Unpack[RunParameters]
    ) -> Run:
        """Submit a run of a Python file, or of a function in it. The file is sent without checks."""
        folder = Path(tempfile.mkdtemp(dir=self.shared))
        (folder / "main.py").write_text(text)
        function = self.project.function("python", source=str(folder / "main.py"))
        function._fields |= {} if handler is None else {"handler": handler}
        return function.run(action, **parameters)

    def folder_of(self, run: Run) -> Path:
        """The folder in which the server stores a run's data."""
        return self.server.data / "runs" / run.id

    def supervisor_of(self, run: Run) -> int:
        """The PID of a run's supervisor. Waits until the run has started."""
        return int(until(lambda: self._read_state(run))["pid"])

    def file(self, name: str) -> Path:
        """Create a file in the shared folder that every run can append to."""
        file = self.shared / name
        file.touch()
        file.chmod(0o666)
        return file

    def _read_state(self, run: Run) -> Any:
        with contextlib.suppress(FileNotFoundError):
            return json.loads((self.folder_of(run) / "state.json").read_text())


@contextlib.contextmanager
def open_platform(
    machine: Machine, *options: str, variables: Variables = None, program: Sequence[str] | None = None
) -> Iterator[Platform]:
    """Start a server with a shared folder. On exit, kill the runs, which outlive their server."""
    with open_folder(0o777) as shared:
        try:
            yield Platform(machine.up(*options, variables=variables, program=program), shared)
        finally:
            machine.close()
            for run_id in list_run_ids(machine.folder):
                kill_processes(run_id)
            remove_cgroups(machine.folder)


@contextlib.contextmanager
def open_folder(mode: int, owner: int = 0) -> Iterator[Path]:
    """Create a temporary folder that other users and runs can access, unlike pytest's folders and /tmp."""
    folder = Path(tempfile.mkdtemp(prefix="fairlead-test-", dir="/var/lib" if os.getuid() == 0 else None))
    try:
        folder.chmod(mode)
        if owner:
            os.chown(folder, owner, owner)
        yield folder
    finally:
        shutil.rmtree(folder)


def until(check: Callable[[], T], seconds: float = TIMEOUT) -> T:
    """Call a function until its result is true, and return the result."""
    deadline = time.monotonic() + seconds
    while not (value := check()):
        assert time.monotonic() < deadline, f"the condition was not met within {seconds} s"
        time.sleep(0.01)
    return value


def list_files(folder: Path) -> list[Path]:
    """All files in a folder and its subfolders. Other processes may delete some of them at any time."""
    return [Path(path, name) for path, _, names in os.walk(folder) for name in names]


def read_files(folder: Path) -> Iterator[tuple[Path, bytes]]:
    """The path and content of every file in a folder and its subfolders."""
    for file in list_files(folder):
        with contextlib.suppress(FileNotFoundError):
            if file.is_file():
                yield file, file.read_bytes()


def wait_for_end(run: Run, seconds: float = TIMEOUT) -> dict[str, Any]:
    """Wait until a run has ended, and return its data."""
    return run.wait(seconds, progress=False).data


def wait_for_all(runs: Sequence[Run], seconds: float = TIMEOUT) -> list[dict[str, Any]]:
    """Wait until all runs have ended, and return their data."""
    deadline = time.monotonic() + seconds
    return [wait_for_end(run, max(deadline - time.monotonic(), 0.1)) for run in runs]


def wait_for_state(run: Run, *states: str, seconds: float = TIMEOUT) -> str:
    """Wait until a run is in one of the given states, and return that state."""
    return until(lambda: state if (state := str(run.state)) in states else "", seconds)


def wait_for_output(run: Run, text: str, seconds: float = TIMEOUT) -> None:
    """Wait until a run's log contains a text."""
    until(lambda: text in run.logs() or not run.refresh().data["active"], seconds)
    assert text in run.logs(), run.data["message"]


def list_run_ids(machine: Path) -> list[str]:
    """The IDs of the runs that a machine's servers have executed."""
    return [folder.name for folder in machine.glob("*/runs/*")]


def find_processes(run_id: str) -> list[int]:
    """The PIDs of a run's supervisor and of all processes that it started."""
    pids = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            marked = f"FAIRLEAD_RUN={run_id}".encode() in Path("/proc", name, "environ").read_bytes().split(b"\0")
            named = run_id.encode() in Path("/proc", name, "cmdline").read_bytes()
            if marked or (named and int(name) != os.getpid()):
                pids.append(int(name))
    return pids


def kill_processes(run_id: str) -> None:
    """Kill all of a run's processes."""
    for pid in find_processes(run_id):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def remove_cgroups(machine: Path) -> None:
    """Remove the cgroups of runs whose supervisor and server were killed."""
    for runs in machine.glob("*/runs"):
        for folder in this_machine().cgroups.list_runs(runs):
            Cgroup(this_machine().cgroups.folders_of(folder)).remove()


def read_peak_memory(pid: int) -> int:
    """The peak resident memory of a process in bytes."""
    status = Path("/proc", str(pid), "status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) * 1024

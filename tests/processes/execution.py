"""Runs on real servers for tests: submitted, waited for, looked at from outside; and nothing of them is left behind."""

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

from fairlead.model.requests import Action
from fairlead.sdk.api_client import ApiClient
from fairlead.sdk.functions import RunParameters
from fairlead.sdk.projects import Project
from fairlead.sdk.runs import Run
from tests.processes.machines import PATIENCE, Machine, Running, Variables

T = TypeVar("T")


@dataclass(frozen=True)
class Platform:
    """A server that executes runs, and a folder that every run can reach and write to."""

    server: Running
    shared: Path

    @property
    def project(self) -> Project:
        """The project that is there from the beginning."""
        return Project(ApiClient(self.server.url, self.server.token), "default")

    def allow(self, **switches: Any) -> None:
        """Turn switches of the platform's policy."""
        self.project.api.put("/policies/platform/platform", {"switches": switches})

    def shell(self, text: str, **parameters: Unpack[RunParameters]) -> Run:
        """Submit a run of a shell script."""
        return self.project.function("shell", command=["bash", "-c", text]).run(**parameters)

    def python(
        self, text: str, handler: str | None = None, action: Action = "job", **parameters: Unpack[RunParameters]
    ) -> Run:
        """Submit a run of a Python file, or of a function in it. The file is sent as it is, unchecked."""
        folder = Path(tempfile.mkdtemp(dir=self.shared))
        (folder / "main.py").write_text(text)
        function = self.project.function("python", source=str(folder / "main.py"))
        function._fields |= {} if handler is None else {"handler": handler}
        return function.run(action, **parameters)

    def folder_of(self, run: Run) -> Path:
        """Where the server keeps what belongs to a run."""
        return self.server.data / "runs" / run.id

    def supervisor_of(self, run: Run) -> int:
        """The process that looks after a run which has been started."""
        return int(until(lambda: self._read_state(run))["pid"])

    def file(self, name: str) -> Path:
        """A file of the shared folder, to which every run can append."""
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
    """A server with a shared folder. Runs outlive their server: what is left of them is ended, by its ids."""
    with open_folder(0o777) as shared:
        try:
            yield Platform(machine.up(*options, variables=variables, program=program), shared)
        finally:
            machine.close()
            for run_id in list_folders(machine.folder):
                kill_left(run_id)


@contextlib.contextmanager
def open_folder(mode: int, owner: int = 0) -> Iterator[Path]:
    """A folder that other users can get to: pytest's own are closed to them."""
    folder = Path(tempfile.mkdtemp(prefix="fairlead-test-"))
    try:
        folder.chmod(mode)
        if owner:
            os.chown(folder, owner, owner)
        yield folder
    finally:
        shutil.rmtree(folder)


def until(check: Callable[[], T], seconds: float = PATIENCE) -> T:
    """The first answer that is true."""
    end = time.monotonic() + seconds
    while not (value := check()):
        assert time.monotonic() < end, f"did not come true within {seconds} s"
        time.sleep(0.01)
    return value


def list_files(folder: Path) -> list[Path]:
    """The files below a folder, from which others may be taken away meanwhile."""
    return [Path(path, name) for path, _, names in os.walk(folder) for name in names]


def read_files(folder: Path) -> Iterator[tuple[Path, bytes]]:
    """The contents of the files."""
    for file in list_files(folder):
        with contextlib.suppress(FileNotFoundError):
            if file.is_file():
                yield file, file.read_bytes()


def end(run: Run, seconds: float = PATIENCE) -> dict[str, Any]:
    """Wait until a run has ended, and return its data."""
    return run.wait(seconds, progress=False).data


def end_all(runs: Sequence[Run], seconds: float = PATIENCE) -> list[dict[str, Any]]:
    """Wait until all runs have ended, and return their data."""
    last = time.monotonic() + seconds
    return [end(run, max(last - time.monotonic(), 0.1)) for run in runs]


def reach(run: Run, *states: str, seconds: float = PATIENCE) -> str:
    """Wait until a run is in one of some states; in which."""
    return until(lambda: state if (state := str(run.state)) in states else "", seconds)


def hear(run: Run, text: str, seconds: float = PATIENCE) -> None:
    """Wait until a run has written something."""
    until(lambda: text in run.logs() or not run.refresh().data["active"], seconds)
    assert text in run.logs(), run.data["message"]


def list_folders(machine: Path) -> list[str]:
    """The ids of runs that servers below a folder have executed."""
    return [folder.name for folder in machine.glob("*/runs/*")]


def find_processes(run_id: str) -> list[int]:
    """The processes of a run that are left: its supervisor, what it started, and what that started."""
    pids = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            marked = f"FAIRLEAD_RUN={run_id}".encode() in Path("/proc", name, "environ").read_bytes().split(b"\0")
            named = run_id.encode() in Path("/proc", name, "cmdline").read_bytes()
            if marked or (named and int(name) != os.getpid()):
                pids.append(int(name))
    return pids


def kill_left(run_id: str) -> None:
    """End what is left of a run."""
    for pid in find_processes(run_id):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def read_resident(pid: int) -> int:
    """The most memory that a process has had so far."""
    status = Path("/proc", str(pid), "status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) * 1024

"""Starts servers and commands as real processes on this machine, and writes their output to files.

Closing a machine ends all processes that it started.
"""

import itertools
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2

from tests.architecture.modules import ROOT

TIMEOUT = 60.0  # seconds; a busy machine takes several times as long as an idle one
# Cache bytecode even if the environment forbids Python from writing it next to the source.
BYTECODE = ROOT / ".pytest_cache" / "bytecode"
FAIRLEAD = Path(sys.executable).with_name("fairlead")
# No TLS, because setting it up takes 0.1 s per client.
CLIENT_OPTIONS: dict[str, Any] = {"timeout": TIMEOUT, "trust_env": False, "verify": False}
# The signal that ends a process. Under `make coverage` a process needs time to write its data.
END_SIGNAL = signal.SIGTERM if "COVERAGE_PROCESS_CONFIG" in os.environ else signal.SIGKILL
END_SECONDS = 10.0
Variables = Mapping[str, str] | None


@dataclass(frozen=True)
class ProcessResult:
    """The exit status and output of a process."""

    code: int
    out: str
    err: str


class Launcher:
    """Starts `fairlead.app` quickly, by forking a process that has already imported it."""

    def __init__(self, home: Path) -> None:
        arguments = [sys.executable, str(Path(__file__).with_name("launcher.py"))]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(arguments, stdin=pipe, stdout=pipe, text=True, env=environment(home), cwd=home)
        self._lock = threading.Lock()

    def request(self, **command: Any) -> Any:
        """Send a command to the launcher process, and return its response."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with self._lock:
            self._process.stdin.write(json.dumps(command) + "\n")
            self._process.stdin.flush()
            return json.loads(self._process.stdout.readline())

    def close(self) -> None:
        """Stop the launcher process and all processes that it started."""
        self._process.communicate(timeout=TIMEOUT)


class Process:
    """A process that writes to two files. It is a child of this process or of the launcher."""

    def __init__(
        self, out: Path, err: Path, child: subprocess.Popen[bytes] | None, launcher: Launcher, pid: int
    ) -> None:
        self.out, self.err, self.pid = out, err, pid
        self._child, self._launcher = child, launcher
        self._code: int | None = None

    @property
    def output(self) -> tuple[str, str]:
        """The output so far."""
        return self.out.read_text("utf-8"), self.err.read_text("utf-8")

    def poll(self) -> int | None:
        """The exit status, or None while the process is running."""
        if self._code is None:
            self._code = self._launcher.request(wait=self.pid) if self._child is None else self._child.poll()
        return self._code

    def wait(self, seconds: float = TIMEOUT) -> ProcessResult:
        """Wait for the process to end, and return its exit status and output. Kills the process after a timeout."""
        deadline = time.monotonic() + seconds
        while self.poll() is None:
            if time.monotonic() > deadline:
                self.send(signal.SIGKILL)
                deadline += TIMEOUT
            time.sleep(0.005)
        assert self._code is not None
        return ProcessResult(self._code, *self.output)

    def send(self, number: signal.Signals) -> None:
        """Send a signal if the process is running."""
        if self.poll() is None:
            os.kill(self.pid, number)


@dataclass(frozen=True)
class RunningServer:
    """A server that is ready."""

    process: Process
    url: str
    data: Path
    seconds: float

    @property
    def token(self) -> str:
        """The server's local token."""
        return (self.data / "token").read_text("utf-8").strip()

    @property
    def link(self) -> str:
        """The sign-in link that the server printed."""
        return self.process.output[0].split("sign in  ")[1].split()[0]

    def client(self, token: str | None = None, **headers: str) -> httpx2.Client:
        """A client with a token, by default the server's local token."""
        all_headers = {"Authorization": f"Bearer {self.token if token is None else token}", **headers}
        return httpx2.Client(base_url=f"{self.url}/api/v1", headers=all_headers, **CLIENT_OPTIONS)

    def anonymous_client(self) -> httpx2.Client:
        """A client without a token that stores cookies like a browser."""
        return httpx2.Client(base_url=self.url, **CLIENT_OPTIONS)

    def stop(self, number: signal.Signals = signal.SIGTERM) -> ProcessResult:
        """Send a signal, and wait for the process to end."""
        self.process.send(number)
        return self.process.wait()


class Machine:
    """A folder in which processes are started, without the Fairlead settings of this environment."""

    def __init__(self, folder: Path, launcher: Launcher) -> None:
        self.folder, self._launcher = folder, launcher
        self._processes: list[Process] = []
        self._numbers = itertools.count()

    def up(
        self, *options: str, data: str = "data", variables: Variables = None, program: Sequence[str] | None = None
    ) -> RunningServer:
        """Start a server on any free port, and wait until it is ready."""
        folder = self.folder / data
        arguments = ["up", "--port", "0", "--data", str(folder), *options]
        started = time.monotonic()
        process = (
            self._launch("fairlead.app", arguments, variables) if program is None else self.start(*program, *arguments)
        )
        url = ""
        while not (url and _is_ready(url)):
            url = url or _find_address(process.output[0])
            assert process.poll() is None, process.output
            assert time.monotonic() - started < TIMEOUT, process.output
            time.sleep(0.01)
        return RunningServer(process, url, folder, time.monotonic() - started)

    def app(self, *arguments: str, variables: Variables = None, seconds: float = TIMEOUT) -> ProcessResult:
        """Run `fairlead.app` until it exits."""
        return self._launch("fairlead.app", arguments, variables).wait(seconds)

    def fairlead(self, *arguments: str, variables: Variables = None) -> ProcessResult:
        """Run the `fairlead` command until it exits."""
        return self._launch("fairlead", arguments, variables).wait()

    def start(self, *arguments: str, variables: Variables = None) -> Process:
        """Start any program."""
        out, err = self._files()
        env = environment(self.folder, variables)
        with out.open("wb") as out_stream, err.open("wb") as err_stream:
            child = subprocess.Popen(
                arguments, stdin=subprocess.DEVNULL, stdout=out_stream, stderr=err_stream, cwd=self.folder, env=env
            )
        return self._add(Process(out, err, child, self._launcher, child.pid))

    def close(self) -> None:
        """End all processes that were started here."""
        for process in self._processes:
            process.send(END_SIGNAL)
        for process in self._processes:
            process.wait(END_SECONDS)

    def _launch(self, program: str, arguments: Sequence[str], variables: Variables) -> Process:
        out, err = self._files()
        paths = {"folder": str(self.folder), "out": str(out), "err": str(err)}
        env = environment(self.folder, variables)
        pid = self._launcher.request(program=program, arguments=list(arguments), variables=env, **paths)
        return self._add(Process(out, err, None, self._launcher, pid))

    def _files(self) -> tuple[Path, Path]:
        number = next(self._numbers)  # two threads never write to the same file
        files = self.folder / f"{number}.out", self.folder / f"{number}.err"
        for file in files:
            file.touch()
        return files

    def _add(self, process: Process) -> Process:
        self._processes.append(process)
        return process


def environment(home: Path, variables: Variables = None) -> dict[str, str]:
    """The environment of a process: inherited, without Fairlead's variables, and with a different home folder."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("FAIRLEAD_", "PYTEST_"))}
    inherited.pop("PYTHONDONTWRITEBYTECODE", None)
    overrides = {"HOME": str(home), "XDG_DATA_HOME": str(home / "share"), "PYTHONPYCACHEPREFIX": str(BYTECODE)}
    return inherited | overrides | dict(variables or {})


def make_resource(name: str, **fields: Any) -> dict[str, Any]:
    """The request body for a compute resource."""
    return {"name": name, "requirements": {"resources": {"cpu": 2, "mem": "4Gi"}}} | fields


def _find_address(output: str) -> str:
    return (
        output.split("listening on ", 1)[1].split()[0] if "listening on " in output and output.count("\n") > 1 else ""
    )


def _is_ready(url: str) -> bool:
    try:
        return httpx2.get(f"{url}/readyz", **CLIENT_OPTIONS).status_code == 200
    except httpx2.TransportError:
        return False

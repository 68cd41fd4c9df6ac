"""The real program for tests: servers and commands as processes on this machine, with what they print in files.

Every process that was started is ended when its machine is closed, by its id.
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

PATIENCE = 60.0  # seconds: a busy machine takes several times as long as a quiet one
# Cache bytecode even if the environment forbids Python to write it next to the source.
BYTECODE = ROOT / ".pytest_cache" / "bytecode"
FAIRLEAD = Path(sys.executable).with_name("fairlead")
# Without TLS, whose setup takes 0.1 s per client.
PLAIN: dict[str, Any] = {"timeout": PATIENCE, "trust_env": False, "verify": False}
# The signal that ends a process. Under `make coverage` a process needs time to write its data.
END = signal.SIGTERM if "COVERAGE_PROCESS_CONFIG" in os.environ else signal.SIGKILL
SECONDS_TO_END = 10.0
Variables = Mapping[str, str] | None


@dataclass(frozen=True)
class Ended:
    """The exit status and output of a process."""

    code: int
    out: str
    err: str


class Launcher:
    """Starts `fairlead.app` in no time, by a process that has it loaded."""

    def __init__(self, home: Path) -> None:
        words = [sys.executable, str(Path(__file__).with_name("launcher.py"))]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(words, stdin=pipe, stdout=pipe, text=True, env=environment(home), cwd=home)
        self._one = threading.Lock()

    def ask(self, **order: Any) -> Any:
        """The answer to an order."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with self._one:
            self._process.stdin.write(json.dumps(order) + "\n")
            self._process.stdin.flush()
            return json.loads(self._process.stdout.readline())

    def close(self) -> None:
        """End it, and with it whatever it started."""
        self._process.communicate(timeout=PATIENCE)


class Process:
    """A process that writes to two files. It is a child of this one, or of the launcher."""

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
        """The exit status, or None while it runs."""
        if self._code is None:
            self._code = self._launcher.ask(wait=self.pid) if self._child is None else self._child.poll()
        return self._code

    def wait(self, seconds: float = PATIENCE) -> Ended:
        """Wait for the end and return exit status and output. Kills the process after a timeout."""
        end = time.monotonic() + seconds
        while self.poll() is None:
            if time.monotonic() > end:
                self.send(signal.SIGKILL)
                end += PATIENCE
            time.sleep(0.005)
        assert self._code is not None
        return Ended(self._code, *self.output)

    def send(self, number: signal.Signals) -> None:
        """Send a signal if the process is running."""
        if self.poll() is None:
            os.kill(self.pid, number)


@dataclass(frozen=True)
class Running:
    """A server that answers."""

    process: Process
    url: str
    data: Path
    seconds: float

    @property
    def token(self) -> str:
        """The token of this machine."""
        return (self.data / "token").read_text("utf-8").strip()

    @property
    def link(self) -> str:
        """The address that signs a browser in, as it was printed."""
        return self.process.output[0].split("sign in  ")[1].split()[0]

    def client(self, token: str | None = None, **headers: str) -> httpx2.Client:
        """A client with a token, by default the local token of the server."""
        sent = {"Authorization": f"Bearer {self.token if token is None else token}", **headers}
        return httpx2.Client(base_url=f"{self.url}/api/v1", headers=sent, **PLAIN)

    def anybody(self) -> httpx2.Client:
        """A client without a token that stores cookies like a browser."""
        return httpx2.Client(base_url=self.url, **PLAIN)

    def stop(self, number: signal.Signals = signal.SIGTERM) -> Ended:
        """Send a signal, and wait for the end."""
        self.process.send(number)
        return self.process.wait()


class Machine:
    """A folder in which processes are started; nothing of this machine's own settings reaches them."""

    def __init__(self, folder: Path, launcher: Launcher) -> None:
        self.folder, self._launcher = folder, launcher
        self._processes: list[Process] = []
        self._numbers = itertools.count()

    def up(
        self, *options: str, data: str = "data", variables: Variables = None, program: Sequence[str] | None = None
    ) -> Running:
        """Start a server on any free port, and wait until it answers."""
        folder = self.folder / data
        words = ["up", "--port", "0", "--data", str(folder), *options]
        started = time.monotonic()
        process = self._launch("fairlead.app", words, variables) if program is None else self.start(*program, *words)
        url = ""
        while not (url and _is_ready(url)):
            url = url or _find_address(process.output[0])
            assert process.poll() is None, process.output
            assert time.monotonic() - started < PATIENCE, process.output
            time.sleep(0.01)
        return Running(process, url, folder, time.monotonic() - started)

    def app(self, *words: str, variables: Variables = None, seconds: float = PATIENCE) -> Ended:
        """Run the server's program to its end."""
        return self._launch("fairlead.app", words, variables).wait(seconds)

    def fairlead(self, *words: str, variables: Variables = None) -> Ended:
        """Run the command that users type, to its end."""
        return self._launch("fairlead", words, variables).wait()

    def start(self, *words: str, variables: Variables = None) -> Process:
        """Start any program, as a shell does."""
        out, err = self._files()
        given = environment(self.folder, variables)
        with out.open("wb") as to_out, err.open("wb") as to_err:
            child = subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=to_out, stderr=to_err, cwd=self.folder, env=given
            )
        return self._keep(Process(out, err, child, self._launcher, child.pid))

    def close(self) -> None:
        """End every process that was started here and is still there."""
        for process in self._processes:
            process.send(END)
        for process in self._processes:
            process.wait(SECONDS_TO_END)

    def _launch(self, program: str, words: Sequence[str], variables: Variables) -> Process:
        out, err = self._files()
        where = {"folder": str(self.folder), "out": str(out), "err": str(err)}
        given = environment(self.folder, variables)
        pid = self._launcher.ask(program=program, words=list(words), variables=given, **where)
        return self._keep(Process(out, err, None, self._launcher, pid))

    def _files(self) -> tuple[Path, Path]:
        number = next(self._numbers)  # two threads never write to the same file
        files = self.folder / f"{number}.out", self.folder / f"{number}.err"
        for file in files:
            file.touch()
        return files

    def _keep(self, process: Process) -> Process:
        self._processes.append(process)
        return process


def environment(home: Path, variables: Variables = None) -> dict[str, str]:
    """The variables of a process: those of this one, without Fairlead's own, and with another home."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("FAIRLEAD_", "PYTEST_"))}
    inherited.pop("PYTHONDONTWRITEBYTECODE", None)
    own = {"HOME": str(home), "XDG_DATA_HOME": str(home / "share"), "PYTHONPYCACHEPREFIX": str(BYTECODE)}
    return inherited | own | dict(variables or {})


def make_resource(name: str, **fields: Any) -> dict[str, Any]:
    """A compute resource, as it is sent."""
    return {"name": name, "requirements": {"resources": {"cpu": 2, "mem": "4Gi"}}} | fields


def _find_address(output: str) -> str:
    return (
        output.split("listening on ", 1)[1].split()[0] if "listening on " in output and output.count("\n") > 1 else ""
    )


def _is_ready(url: str) -> bool:
    try:
        return httpx2.get(f"{url}/readyz", **PLAIN).status_code == 200
    except httpx2.TransportError:
        return False

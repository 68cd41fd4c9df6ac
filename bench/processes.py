"""Processes of a peer: starts and stops them under a reaper, measures their memory, and runs drivers."""

import contextlib
import json
import os
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from bench.reaper import KILL_SECONDS, TERM_SECONDS, descendants

HOST = "127.0.0.1"
ROOT = Path(__file__).parents[1]
REAPER = Path(__file__).with_name("reaper.py")
SAMPLE_SECONDS = 0.5
SHARE = 0.05  # the share of a core that sampling may use
_PSS, _RSS = re.compile(r"^Pss:\s+(\d+) kB", re.MULTILINE), re.compile(r"^VmRSS:\s+(\d+) kB", re.MULTILINE)
_EXCLUDED = re.compile(r"(PREFECT|RAY|FAIRLEAD)_.*|.*_PROXY|VIRTUAL_ENV|PYTHON.*", re.IGNORECASE)


@dataclass
class ManagedProcess:
    """A program that runs under a reaper."""

    folder: Path
    environment: Mapping[str, str]
    process: subprocess.Popen[bytes] | None = None

    def start(self, command: Sequence[str | Path]) -> None:
        """Start the program in the folder."""
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-S", str(REAPER), *map(str, command)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                env=self.environment,
                start_new_session=True,
            )

    def stop(self) -> None:
        """Stop the program and all its descendants."""
        if self.process is not None:
            self.process.terminate()
            self.process.wait(TERM_SECONDS + KILL_SECONDS + 10)
            self.process = None

    def pids(self) -> list[int]:
        """Return the PIDs of the program and its descendants."""
        return [] if self.process is None else descendants(self.process.pid)

    def wait_for(self, is_ready: Callable[[], bool], seconds: float) -> None:
        """Wait until a condition is true. After a timeout, raises an error with the end of the log."""
        until = time.monotonic() + seconds
        while not is_ready():
            ended = self.process is None or self.process.poll() is not None
            if ended or time.monotonic() > until:
                problem = "ended" if ended else f"not ready within {seconds:.0f} s"
                raise AssertionError(f"{problem}: {self.log.read_text('utf-8', 'replace')[-2000:]}")
            time.sleep(0.01)

    @property
    def log(self) -> Path:
        """The log file of the program."""
        return self.folder / "log"


@dataclass
class PeakMemory:
    """Samples the peak memory while its context is active."""

    pids: Callable[[], Iterable[int]]
    serving: set[int]  # processes that existed before sampling began
    of_all: int = 0
    of_serving: int = 0
    _done: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._sample, daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _at: TracebackType | None
    ) -> None:
        self._done.set()
        assert self._thread is not None
        self._thread.join()

    def _sample(self) -> None:
        pause = 0.0
        while not self._done.wait(pause):
            started = time.thread_time()
            sizes = {pid: memory([pid]) for pid in self.pids()}
            self.of_all = max(self.of_all, sum(sizes.values()))
            self.of_serving = max(self.of_serving, sum(size for pid, size in sizes.items() if pid in self.serving))
            pause = max(SAMPLE_SECONDS, (time.thread_time() - started) / SHARE)


def memory(pids: Iterable[int]) -> int:
    """Return the memory of processes in bytes: PSS, which counts shared memory once, or RSS if PSS is not readable."""
    return sum(map(_memory, pids)) * 1024


def _memory(pid: int) -> int:
    for file, pattern in (("smaps_rollup", _PSS), ("status", _RSS)):
        with contextlib.suppress(OSError):
            if match := pattern.search(Path(f"/proc/{pid}/{file}").read_text("utf-8")):
                return int(match[1])
    return 0  # the process has ended


def free_port() -> int:
    """Return a free port."""
    with socket.socket() as listener:
        listener.bind((HOST, 0))
        return int(listener.getsockname()[1])


def clean_environment(programs: Path, **extra: str) -> dict[str, str]:
    """Return the environment without variables for peers, Python and proxies, with a folder prepended to PATH."""
    inherited = {name: value for name, value in os.environ.items() if not _EXCLUDED.fullmatch(name)}
    path = f"{programs}{os.pathsep}{inherited.get('PATH', os.defpath)}"
    return {**inherited, "PATH": path, "DO_NOT_TRACK": "1", **extra}


def drive(python: Path, driver: str, *arguments: object, environment: Mapping[str, str], seconds: float) -> Any:
    """Run a driver with the interpreter of a peer and return the JSON on its last line."""
    completed = subprocess.run(
        [str(python), "-m", f"bench.drivers.{driver}", *map(str, arguments)],
        check=False,
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=environment,
        timeout=seconds,
    )
    if completed.returncode:
        raise AssertionError(f"{driver} {arguments}: {(completed.stdout + completed.stderr)[-2000:]}")
    return json.loads(completed.stdout.strip().splitlines()[-1])

"""Processes of a peer: started below a keeper, found again, weighed, stopped; and small programs run beside them."""

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

from bench.keeper import POLITE_SECONDS, RUDE_SECONDS, descendants

HOST = "127.0.0.1"
ROOT = Path(__file__).parents[1]
KEEPER = Path(__file__).with_name("keeper.py")
SAMPLE_SECONDS = 0.5
SHARE = 0.05  # of a core, which sampling may take
_PSS, _RSS = re.compile(r"^Pss:\s+(\d+) kB", re.MULTILINE), re.compile(r"^VmRSS:\s+(\d+) kB", re.MULTILINE)
_STRANGE = re.compile(r"(PREFECT|RAY|FAIRLEAD)_.*|.*_PROXY|VIRTUAL_ENV|PYTHON.*", re.IGNORECASE)


@dataclass
class Kept:
    """A program that runs below a keeper, with all that it started."""

    folder: Path
    environment: Mapping[str, str]
    process: subprocess.Popen[bytes] | None = None

    def start(self, words: Sequence[str | Path]) -> None:
        """Start the program in the folder."""
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-S", str(KEEPER), *map(str, words)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                env=self.environment,
                start_new_session=True,
            )

    def stop(self) -> None:
        """End the program and all that it started, where it runs."""
        if self.process is not None:
            self.process.terminate()
            self.process.wait(POLITE_SECONDS + RUDE_SECONDS + 10)
            self.process = None

    def pids(self) -> list[int]:
        """The program and all that it started."""
        return [] if self.process is None else descendants(self.process.pid)

    def wait_for(self, is_there: Callable[[], bool], seconds: float) -> None:
        """Ask until something is there. Raises with the end of the log where it takes too long."""
        until = time.monotonic() + seconds
        while not is_there():
            ended = self.process is None or self.process.poll() is not None
            if ended or time.monotonic() > until:
                told = "ended" if ended else f"not there within {seconds:.0f} s"
                raise AssertionError(f"{told}: {self.log.read_text('utf-8', 'replace')[-2000:]}")
            time.sleep(0.01)

    @property
    def log(self) -> Path:
        """What the program says."""
        return self.folder / "log"


@dataclass
class PeakMemory:
    """The most memory at one time, sampled while it is entered."""

    pids: Callable[[], Iterable[int]]
    serving: set[int]  # those that were there before
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
    """The bytes of memory of processes: what they share counts once (PSS), or for each where Linux hides it (RSS)."""
    return sum(map(_memory, pids)) * 1024


def _memory(pid: int) -> int:
    for file, pattern in (("smaps_rollup", _PSS), ("status", _RSS)):
        with contextlib.suppress(OSError):
            if found := pattern.search(Path(f"/proc/{pid}/{file}").read_text("utf-8")):
                return int(found[1])
    return 0  # it ended since, or is about to


def free_port() -> int:
    """A port on which nobody listens."""
    with socket.socket() as found:
        found.bind((HOST, 0))
        return int(found.getsockname()[1])


def clean_environment(programs: Path, **more: str) -> dict[str, str]:
    """The environment without what concerns peers, Python or proxies; with programs that are found first."""
    kept = {name: value for name, value in os.environ.items() if not _STRANGE.fullmatch(name)}
    return {**kept, "PATH": f"{programs}{os.pathsep}{kept.get('PATH', os.defpath)}", "DO_NOT_TRACK": "1", **more}


def drive(python: Path, driver: str, *words: object, environment: Mapping[str, str], seconds: float) -> Any:
    """What a driver prints as JSON on its last line, run by the interpreter of a peer."""
    ran = subprocess.run(
        [str(python), "-m", f"bench.drivers.{driver}", *map(str, words)],
        check=False,
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=environment,
        timeout=seconds,
    )
    if ran.returncode:
        raise AssertionError(f"{driver} {words}: {(ran.stdout + ran.stderr)[-2000:]}")
    return json.loads(ran.stdout.strip().splitlines()[-1])

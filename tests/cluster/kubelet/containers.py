"""Containers: real processes of this machine, or simulated ones."""

import asyncio
import contextlib
import os
import shutil
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import psutil

from tests.cluster.control_planes import GUARD
from tests.cluster.kubelet.logfiles import Log
from tests.cluster.kubelet.outcomes import Outcome

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
PYTHONS = ("python", "python3")
MEASURE_SECONDS = 0.1
FLED_SECONDS = 2
CHUNK = 64 * 1024
KILLED = 128 + signal.SIGKILL
TOLD_TO_END = 128 + signal.SIGTERM
IDLE = (0.001, 20 * 2**20)  # what one that pretends uses


@dataclass(frozen=True)
class Ended:
    """How a container ended."""

    code: int
    reason: str
    message: str = ""


class StartError(Exception):
    """The program does not exist; with the message of the container runtime."""


class Content(Protocol):
    """The process of a container."""

    async def wait(self) -> Ended:
        """How it ended, once it has."""

    async def stop(self, grace_seconds: float) -> None:
        """Ask it to end, and see to it that it does in time."""

    def kill(self, reason: str) -> None:
        """End it at once, and say so as the reason."""

    async def see_off(self) -> None:
        """Kill it, and wait until all its processes are gone."""

    def usage(self) -> tuple[float, int]:
        """The seconds of CPU that it used so far, and the bytes of memory that it uses now."""


class Process:
    """A process, with everything that it starts."""

    def __init__(self, child: asyncio.subprocess.Process, log: Log, memory: int | None) -> None:
        self._child, self._log, self._memory = child, log, memory
        self._reason = ""
        assert child.stdout is not None
        assert child.stderr is not None
        pipes = [(child.stdout, "stdout"), (child.stderr, "stderr")]
        self._readers = [asyncio.create_task(self._keep(pipe, stream)) for pipe, stream in pipes]
        self._guard = asyncio.create_task(self._watch_memory())

    @classmethod
    async def start(
        cls, words: Sequence[str], variables: Mapping[str, str], folder: Path, log: Log, memory: int | None = None
    ) -> "Process":
        """Start a program with nothing but these variables. Over its memory, in bytes, it is ended."""
        variables = {"PATH": PATH, **variables}
        program = sys.executable if words[0] in PYTHONS else shutil.which(words[0], path=variables["PATH"])
        if program is None:
            raise StartError(f'exec: "{words[0]}": executable file not found in $PATH: unknown')
        child = await asyncio.create_subprocess_exec(
            *(sys.executable, "-ISc", GUARD, program, *words[1:]),
            stdin=DEVNULL,
            stdout=PIPE,
            stderr=PIPE,
            env=dict(variables),
            cwd=folder,
            start_new_session=True,
        )
        return cls(child, log, memory)

    @property
    def pid(self) -> int:
        """The id of the process."""
        return self._child.pid

    async def wait(self) -> Ended:
        """How it ended, once it has and all that it wrote is in the log."""
        code = await self._child.wait()
        self._signal(signal.SIGKILL)  # what it started ends with it
        await self._finish()
        code = 128 - code if code < 0 else code
        return Ended(code, self._reason or ("Error" if code else "Completed"))

    async def stop(self, grace_seconds: float) -> None:
        """SIGTERM, and after the grace SIGKILL."""
        with contextlib.suppress(ProcessLookupError):
            self._child.terminate()
        try:
            await asyncio.wait_for(self._child.wait(), grace_seconds)
        except TimeoutError:
            self._signal(signal.SIGKILL)

    def kill(self, reason: str) -> None:
        """SIGKILL."""
        self._reason = self._reason or reason
        self._signal(signal.SIGKILL)

    async def see_off(self) -> None:
        """SIGKILL, and the end of all that waits for it."""
        self.kill("Error")
        await self._child.wait()
        await self._finish()

    def usage(self) -> tuple[float, int]:
        """Of the process and those that it started."""
        cpu, memory = 0.0, 0
        with contextlib.suppress(psutil.Error):
            own = psutil.Process(self.pid)
            for process in (own, *own.children(recursive=True)):
                with contextlib.suppress(psutil.Error), process.oneshot():
                    times = process.cpu_times()
                    cpu += times.user + times.system
                    memory += process.memory_info().rss
        return cpu, memory

    async def _finish(self) -> None:
        """Read what is left to be read, unless something that fled keeps the pipes open."""
        self._guard.cancel()
        await asyncio.wait(self._readers, timeout=FLED_SECONDS)
        for task in self._readers:
            task.cancel()
        self._log.close()

    async def _keep(self, pipe: asyncio.StreamReader, stream: str) -> None:
        while data := await pipe.read(CHUNK):
            self._log.write(stream, data)

    async def _watch_memory(self) -> None:
        while self._memory is not None:
            await asyncio.sleep(MEASURE_SECONDS)
            if self.usage()[1] > self._memory:
                self.kill("OOMKilled")

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, number)


class Pretence:
    """A simulated process with a given duration and exit code."""

    def __init__(self, outcome: Outcome, log: Log) -> None:
        self._outcome, self._log = outcome, log
        self._told: asyncio.Future[Ended] = asyncio.get_running_loop().create_future()

    async def wait(self) -> Ended:
        """How it ended, once it has."""
        self._log.write("stdout", self._outcome.log.encode())
        seconds = None if self._outcome.kind == "sleep" else self._outcome.seconds
        try:
            return await asyncio.wait_for(self._told, seconds)
        except TimeoutError:
            code = self._outcome.exit_code
            reason = "OOMKilled" if self._outcome.kind == "oom" else "Error" if code else "Completed"
            return Ended(code, reason, self._outcome.message)
        finally:
            self._log.close()

    async def stop(self, grace_seconds: float) -> None:  # noqa: ARG002
        """It ends at once."""
        self._tell(Ended(TOLD_TO_END, "Error"))

    def kill(self, reason: str) -> None:
        """It ends at once."""
        self._tell(Ended(KILLED, reason))

    async def see_off(self) -> None:
        """There is nothing to wait for."""

    def usage(self) -> tuple[float, int]:
        """A fixed exit, independent of the time."""
        return IDLE

    def _tell(self, ended: Ended) -> None:
        if not self._told.done():
            self._told.set_result(ended)

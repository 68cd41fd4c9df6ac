"""Containers: real processes on this machine, or simulated ones."""

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
PIPE_SECONDS = 2
CHUNK = 64 * 1024
KILLED = 128 + signal.SIGKILL
TERMINATED = 128 + signal.SIGTERM
IDLE = (0.001, 20 * 2**20)  # a simulated container's usage: CPU seconds, and memory in bytes


@dataclass(frozen=True)
class ExitStatus:
    """The exit status of a container."""

    code: int
    reason: str
    message: str = ""


class StartError(Exception):
    """The program does not exist. Has the container runtime's message."""


class ContainerProcess(Protocol):
    """A container's process."""

    async def wait(self) -> ExitStatus:
        """Wait for the process to end, and return the exit status."""

    async def stop(self, grace_seconds: float) -> None:
        """Stop the process gracefully, and kill it after the grace period."""

    def kill(self, reason: str) -> None:
        """Kill the process, and set the reason in its exit status."""

    async def kill_and_wait(self) -> None:
        """Kill the process, and wait until all its child processes have ended."""

    def usage(self) -> tuple[float, int]:
        """The CPU seconds used so far, and the current memory usage in bytes."""


class Process:
    """A real process and its child processes."""

    def __init__(self, child: asyncio.subprocess.Process, log: Log, memory: int | None) -> None:
        self._child, self._log, self._memory = child, log, memory
        self._reason = ""
        assert child.stdout is not None
        assert child.stderr is not None
        pipes = [(child.stdout, "stdout"), (child.stderr, "stderr")]
        self._readers = [asyncio.create_task(self._read_pipe(pipe, stream)) for pipe, stream in pipes]
        self._memory_watcher = asyncio.create_task(self._watch_memory())

    @classmethod
    async def start(
        cls, arguments: Sequence[str], variables: Mapping[str, str], folder: Path, log: Log, memory: int | None = None
    ) -> "Process":
        """Start a program with only these environment variables. It is killed if it uses more than `memory` bytes."""
        variables = {"PATH": PATH, **variables}
        program = sys.executable if arguments[0] in PYTHONS else shutil.which(arguments[0], path=variables["PATH"])
        if program is None:
            raise StartError(f'exec: "{arguments[0]}": executable file not found in $PATH: unknown')
        child = await asyncio.create_subprocess_exec(
            *(sys.executable, "-ISc", GUARD, program, *arguments[1:]),
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
        """The PID."""
        return self._child.pid

    async def wait(self) -> ExitStatus:
        """Wait until the process has ended and its output is in the log, and return the exit status."""
        code = await self._child.wait()
        self._signal(signal.SIGKILL)  # kill its child processes
        await self._finish()
        code = 128 - code if code < 0 else code
        return ExitStatus(code, self._reason or ("Error" if code else "Completed"))

    async def stop(self, grace_seconds: float) -> None:
        """Send SIGTERM, and SIGKILL after the grace period."""
        with contextlib.suppress(ProcessLookupError):
            self._child.terminate()
        try:
            await asyncio.wait_for(self._child.wait(), grace_seconds)
        except TimeoutError:
            self._signal(signal.SIGKILL)

    def kill(self, reason: str) -> None:
        """Send SIGKILL to the process group."""
        self._reason = self._reason or reason
        self._signal(signal.SIGKILL)

    async def kill_and_wait(self) -> None:
        """Send SIGKILL, and wait until the output is read."""
        self.kill("Error")
        await self._child.wait()
        await self._finish()

    def usage(self) -> tuple[float, int]:
        """The usage of the process and its child processes."""
        cpu, memory = 0.0, 0
        with contextlib.suppress(psutil.Error):
            main_process = psutil.Process(self.pid)
            for process in (main_process, *main_process.children(recursive=True)):
                with contextlib.suppress(psutil.Error), process.oneshot():
                    times = process.cpu_times()
                    cpu += times.user + times.system
                    memory += process.memory_info().rss
        return cpu, memory

    async def _finish(self) -> None:
        """Read the remaining output. Gives up if a detached process keeps the pipes open."""
        self._memory_watcher.cancel()
        await asyncio.wait(self._readers, timeout=PIPE_SECONDS)
        for task in self._readers:
            task.cancel()
        self._log.close()

    async def _read_pipe(self, pipe: asyncio.StreamReader, stream: str) -> None:
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


class SimulatedProcess:
    """A simulated process with a given duration and exit code."""

    def __init__(self, outcome: Outcome, log: Log) -> None:
        self._outcome, self._log = outcome, log
        self._exit_status: asyncio.Future[ExitStatus] = asyncio.get_running_loop().create_future()

    async def wait(self) -> ExitStatus:
        """Wait for the process to end, and return the exit status."""
        self._log.write("stdout", self._outcome.log.encode())
        seconds = None if self._outcome.kind == "sleep" else self._outcome.seconds
        try:
            return await asyncio.wait_for(self._exit_status, seconds)
        except TimeoutError:
            code = self._outcome.exit_code
            reason = "OOMKilled" if self._outcome.kind == "oom" else "Error" if code else "Completed"
            return ExitStatus(code, reason, self._outcome.message)
        finally:
            self._log.close()

    async def stop(self, grace_seconds: float) -> None:  # noqa: ARG002
        """End immediately."""
        self._set_exit_status(ExitStatus(TERMINATED, "Error"))

    def kill(self, reason: str) -> None:
        """End immediately."""
        self._set_exit_status(ExitStatus(KILLED, reason))

    async def kill_and_wait(self) -> None:
        """Do nothing, because there is no process."""

    def usage(self) -> tuple[float, int]:
        """A fixed usage that does not change over time."""
        return IDLE

    def _set_exit_status(self, status: ExitStatus) -> None:
        if not self._exit_status.done():
            self._exit_status.set_result(status)

"""Processes that a run left behind when its supervisor was killed."""

import contextlib
import os
import signal
from pathlib import Path

from fairlead.core.attempts import run_of


def kill_processes_of(execution: str) -> None:
    """End every process that was started by a run, known by the run's id in its environment.

    Of its tries only one goes on at a time: the next one begins when all of this is over.
    """
    mark = f"FAIRLEAD_RUN={run_of(execution)}".encode()
    for pid in list_processes_of(mark):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)


def list_processes_of(mark: bytes) -> list[int]:
    """The processes with a variable in their environment, save this one."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) != os.getpid():
            with contextlib.suppress(OSError):
                if mark in Path("/proc", name, "environ").read_bytes().split(b"\0"):
                    found.append(int(name))
    return found

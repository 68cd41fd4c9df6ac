"""Processes that a run left behind when its supervisor was killed."""

import contextlib
import os
import signal
from pathlib import Path


def kill_processes_of(run_id: str) -> None:
    """End every process that was started by a run, known by the run's id in its environment."""
    mark = f"FAIRLEAD_RUN={run_id}".encode()
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

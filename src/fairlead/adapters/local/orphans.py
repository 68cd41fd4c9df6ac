"""Finds and kills the processes of a run whose supervisor was killed."""

import contextlib
import os
import signal
import time
from pathlib import Path

from fairlead.lifecycle.attempts import run_id_of

EXIT_SECONDS = 2.0  # a process in an uninterruptible system call exits later


PAUSE_SECONDS = 0.01


def kill_processes_of(execution: str) -> None:
    """Kill all processes of a run and wait until they have exited. They are found by the run ID in their environment.

    All attempts of a run share that ID, but only one attempt is active at a time.
    """
    variable = f"FAIRLEAD_RUN={run_id_of(execution)}".encode()
    deadline = time.monotonic() + EXIT_SECONDS
    # Repeat, because a process may start another one before it is killed.
    while (pids := list_processes_of(variable)) and time.monotonic() < deadline:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(PAUSE_SECONDS)


def list_processes_of(variable: bytes) -> list[int]:
    """List all processes, except this one, that have the variable in their environment."""
    pids = []
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) != os.getpid():
            with contextlib.suppress(OSError):
                if variable in Path("/proc", name, "environ").read_bytes().split(b"\0"):
                    pids.append(int(name))
    return pids

"""Finds and kills the processes of a run whose supervisor was killed."""

import contextlib
import os
import signal
from pathlib import Path

from fairlead.core.attempts import run_id_of


def kill_processes_of(execution: str) -> None:
    """Kill every process of a run. They are found by the run's id in their environment.

    All attempts of a run share that id, but only one attempt is active at a time.
    """
    variable = f"FAIRLEAD_RUN={run_id_of(execution)}".encode()
    for pid in list_processes_of(variable):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)


def list_processes_of(variable: bytes) -> list[int]:
    """List the processes, except this one, that have a variable in their environment."""
    pids = []
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) != os.getpid():
            with contextlib.suppress(OSError):
                if variable in Path("/proc", name, "environ").read_bytes().split(b"\0"):
                    pids.append(int(name))
    return pids

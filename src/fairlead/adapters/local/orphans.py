"""Finds and kills the processes of a run whose supervisor was killed."""

import contextlib
import os
import signal
import time
from collections.abc import Iterator
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
    # A search misses a process that is started meanwhile, so finding none counts only if none was started. It must
    # find none twice: during execve, the environment of a process can be read as empty.
    empty_searches = 0
    while empty_searches < 2 and time.monotonic() < deadline:
        newest = read_newest_pid()
        empty_searches += 1
        for pid in find_processes_of(variable):
            empty_searches = 0
            with contextlib.suppress(ProcessLookupError, PermissionError):
                kill_with_group(pid)
        if read_newest_pid() != newest:
            empty_searches = 0
        time.sleep(PAUSE_SECONDS)


def kill_with_group(pid: int) -> None:
    """Kill a process and its process group. The kernel kills a group at once, so none of its members can start another.

    A supervisor starts its run in a session of its own, so a group has members of one run only.
    """
    group = os.getpgid(pid)
    if group != os.getpgrp():
        os.killpg(group, signal.SIGKILL)
    os.kill(pid, signal.SIGKILL)


def read_newest_pid() -> bytes:
    """Read the ID of the process or thread that was started last on this machine."""
    return Path("/proc/loadavg").read_bytes().split()[-1]


def find_processes_of(variable: bytes) -> Iterator[int]:
    """Find all processes, except this one, that have the variable in their environment.

    The newest come first (/proc lists process IDs in ascending order), because they may exit soon after they have
    started others.
    """
    for name in reversed(os.listdir("/proc")):
        if name.isdigit() and int(name) != os.getpid():
            with contextlib.suppress(OSError):
                if variable in Path("/proc", name, "environ").read_bytes().split(b"\0"):
                    yield int(name)

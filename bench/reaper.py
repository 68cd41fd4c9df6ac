"""Starts a program. When the reaper is stopped, it stops all descendants of the program, including daemons.

python reaper.py PROGRAM ARGUMENT...

Some servers leave their process group and session, so they cannot be found through these. A reaper is a child
subreaper: Linux makes it the parent of orphaned descendants. It stops when its own parent ends.
"""

import contextlib
import ctypes
import os
import signal
import sys
import time
from pathlib import Path

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
TERM_SECONDS, KILL_SECONDS = 5, 30


def main() -> None:
    prctl = ctypes.CDLL(None).prctl
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    try:
        os.posix_spawnp(sys.argv[1], sys.argv[1:], os.environ)
        with contextlib.suppress(ChildProcessError):  # all descendants have ended
            while True:
                os.wait()
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        _signal_all(signal.SIGTERM, TERM_SECONDS)
        _signal_all(signal.SIGKILL, KILL_SECONDS)


def descendants(pid: int) -> list[int]:
    """Return the PIDs of all descendants of a process."""
    children: dict[int, list[int]] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with contextlib.suppress(OSError):  # the process has ended
                parent = (folder / "stat").read_text("utf-8", "replace").rpartition(")")[2].split()[1]
                children.setdefault(int(parent), []).append(int(folder.name))
    pids, pending = list[int](), [pid]
    while pending:
        direct = children.get(pending.pop(), [])
        pids += direct
        pending += direct
    return pids


def _signal_all(number: signal.Signals, timeout_seconds: float) -> None:
    """Send a signal to each descendant once, and reap them."""
    signaled, until = set[int](), time.monotonic() + timeout_seconds
    while (left := set(descendants(os.getpid()))) and time.monotonic() < until:
        for pid in left - signaled:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
        signaled |= left
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        time.sleep(0.02)


if __name__ == "__main__":
    main()

"""Starts a program and keeps all that comes of it, daemons too, until it is told to end: then all of it ends.

python keeper.py PROGRAM ARGUMENT...

Some servers leave their process group and their session, so neither finds them again. A keeper is the one to whom
Linux gives processes that lost their parent: what it started stays below it. It ends with whoever started it.
"""

import contextlib
import ctypes
import os
import signal
import sys
import time
from pathlib import Path

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
POLITE_SECONDS, RUDE_SECONDS = 5, 30


def main() -> None:
    prctl = ctypes.CDLL(None).prctl
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    try:
        os.posix_spawnp(sys.argv[1], sys.argv[1:], os.environ)
        with contextlib.suppress(ChildProcessError):  # nothing is left to keep
            while True:
                os.wait()
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        _end(signal.SIGTERM, POLITE_SECONDS)
        _end(signal.SIGKILL, RUDE_SECONDS)


def descendants(pid: int) -> list[int]:
    """The processes that a process started, that those started, and so on; without itself."""
    children: dict[int, list[int]] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with contextlib.suppress(OSError):  # it ended since
                parent = (folder / "stat").read_text("utf-8", "replace").rpartition(")")[2].split()[1]
                children.setdefault(int(parent), []).append(int(folder.name))
    found, ahead = list[int](), [pid]
    while ahead:
        below = children.get(ahead.pop(), [])
        found += below
        ahead += below
    return found


def _end(number: signal.Signals, patience_seconds: float) -> None:
    """Send a signal to each process below this one, once, and see them off."""
    told, until = set[int](), time.monotonic() + patience_seconds
    while (left := set(descendants(os.getpid()))) and time.monotonic() < until:
        for pid in left - told:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
        told |= left
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        time.sleep(0.02)


if __name__ == "__main__":
    main()

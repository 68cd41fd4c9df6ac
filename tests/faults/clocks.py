"""Clock changes: a file contains the offset of a server's clock and of its supervisors in seconds.

Only the wall clock changes; the monotonic clock continues, as on a real machine.
"""

import contextlib
import os
import random
import time
import uuid
from collections.abc import Mapping
from datetime import datetime, tzinfo
from pathlib import Path

from tests.architecture.modules import ROOT

CLOCK_FILE = "CLOCK_FILE"  # a variable of a server
NAME = "clock"  # of that file, in the data folder, where supervisors look for it
SUPERVISOR = "tests.faults.supervisors"

_time, _time_ns = time.time, time.time_ns


def set_clock(data: Path, seconds: float) -> None:
    """Set the clock offset of a server and its supervisors in seconds."""
    aside = data / f".{NAME}"
    aside.write_text(str(seconds))
    aside.replace(data / NAME)


def install(variables: Mapping[str, str]) -> None:
    """Let this process, which is about to be a server, have the clock of a file."""
    if CLOCK_FILE not in variables:
        return
    from fairlead import composition
    from fairlead.adapters.local import executors, folders

    shift(Path(variables[CLOCK_FILE]))
    composition.datetime = folders.datetime = _Moments  # type: ignore[attr-defined, assignment]
    composition.uuid_utils = _Ids()  # type: ignore[attr-defined, assignment]
    executors.SUPERVISOR = SUPERVISOR
    executors.PACKAGES = os.pathsep.join([executors.PACKAGES, str(ROOT)])


def shift(file: Path) -> None:
    """Let this process have the clock of a file."""

    def offset() -> float:
        with contextlib.suppress(FileNotFoundError):
            return float(file.read_text())
        return 0.0

    time.time = lambda: _time() + offset()
    time.time_ns = lambda: _time_ns() + int(offset() * 1e9)


class _Moments:
    """Replaces `datetime` for now(). The values that it creates are plain datetimes."""

    fromtimestamp = datetime.fromtimestamp

    @staticmethod
    def now(zone: tzinfo) -> datetime:
        return datetime.fromtimestamp(time.time(), zone)


class _Ids:
    """Ids as the library makes them from the clock: in one process never a lesser one after a greater one."""

    def __init__(self) -> None:
        self.last = 0

    def uuid7(self) -> uuid.UUID:
        self.last = max(self.last + 1, (time.time_ns() // 1_000_000 << 80) + random.getrandbits(72))
        return uuid.UUID(int=self.last)

"""Clock changes: a file contains the clock offset of a server and its supervisors in seconds.

Only the wall clock changes; the monotonic clock continues, as on a real machine.
"""

import contextlib
import os
import random
import threading
import time
import uuid
from collections.abc import Mapping
from datetime import datetime, tzinfo
from pathlib import Path

from tests.architecture.modules import ROOT

CLOCK_FILE = "CLOCK_FILE"  # server environment variable with the path of the file
FILE_NAME = "clock"  # in the data folder, where supervisors read it
SUPERVISOR = "tests.faults.supervisors"

_time, _time_ns = time.time, time.time_ns


def set_clock(data: Path, seconds: float) -> None:
    """Set the clock offset of a server and its supervisors in seconds."""
    temporary_file = data / f".{FILE_NAME}"
    temporary_file.write_text(str(seconds))
    temporary_file.replace(data / FILE_NAME)


def install(variables: Mapping[str, str]) -> None:
    """Make this process, which becomes a server, use the clock offset from a file, if one is configured."""
    if CLOCK_FILE not in variables:
        return
    from fairlead.adapters.local import executor, folders
    from fairlead.services import registry

    use_clock_file(Path(variables[CLOCK_FILE]))
    registry.datetime = folders.datetime = _ShiftedDatetime  # type: ignore[attr-defined, assignment]
    registry.uuid_utils = _ShiftedUuids()  # type: ignore[attr-defined, assignment]
    executor.SUPERVISOR = SUPERVISOR
    executor.PACKAGES = os.pathsep.join([executor.PACKAGES, str(ROOT)])


def use_clock_file(file: Path) -> None:
    """Make this process use the clock offset from a file."""

    def offset() -> float:
        with contextlib.suppress(FileNotFoundError):
            return float(file.read_text())
        return 0.0

    time.time = lambda: _time() + offset()
    time.time_ns = lambda: _time_ns() + int(offset() * 1e9)


class _ShiftedDatetime:
    """Replaces `datetime` to shift now(). It creates normal datetimes."""

    fromtimestamp = datetime.fromtimestamp

    @staticmethod
    def now(zone: tzinfo) -> datetime:
        return datetime.fromtimestamp(time.time(), zone)


class _ShiftedUuids:
    """Creates UUIDs from the shifted clock. Like the library's UUIDs, they never decrease within a process."""

    def __init__(self) -> None:
        self.last, self._lock = 0, threading.Lock()

    def uuid7(self) -> uuid.UUID:
        with self._lock:  # the server creates IDs in several threads
            self.last = max(self.last + 1, (time.time_ns() // 1_000_000 << 80) + random.getrandbits(72))
            return uuid.UUID(int=self.last)

"""Local buffer files for run logs, which record how far each pod's log has been read.

Each record is one line of one pod. A platform line marks each change to a different pod.
"""

import contextlib
import os
import re
import threading
from collections.abc import Iterable
from pathlib import Path

from fairlead.adapters.log_files import MAX_RECORD_BYTES, LogWriter, read_records
from fairlead.adapters.masking import MASK, Masker
from fairlead.run_tokens import PREFIX

MAX_BYTES = 64 << 20  # the log is saved in the database when the run has ended
SECOND = 10**9
POD = re.compile(rb"pod (\S+):\n")
# Run tokens are recognized by their format: they are not stored, so other servers do not know their values.
TOKEN = re.compile(re.escape(PREFIX).encode() + rb"[A-Za-z0-9._-]+")
ALL = 1 << 62

ReadPosition = tuple[int, int]  # time of the last line in whole seconds, and the number of lines read with that time


class LogBuffer:
    """The log of one run. Thread-safe."""

    def __init__(self, file: Path, secrets: Iterable[str], *, many: bool) -> None:
        self.file, self._many = file, many
        self._masker = Masker(secrets)
        self._lock = threading.Lock()
        self._closed = False
        self._positions: dict[str, ReadPosition] = {}
        self._pod = _read_first(file)  # the pod of the last line
        end = 0
        with contextlib.suppress(ValueError):  # the file contains other data
            for piece in read_records(file, 0, ALL):
                self._remember(piece.stream, piece.data, piece.nanoseconds)
                end = piece.end
        if file.exists():
            os.truncate(file, end)  # an incomplete record is written again
        self._writer = LogWriter(file, MAX_BYTES)

    def read_position(self, pod: str) -> ReadPosition:
        """The position up to which a pod's log has been read."""
        with self._lock:
            return self._positions.get(pod, (0, 0))

    def add(self, pod: str, nanoseconds: int, line: bytes) -> None:
        """Add a line, with secrets masked."""
        masked = TOKEN.sub(MASK, self._masker.mask_bytes(line))
        with self._lock:
            if self._closed:
                return
            if pod != self._pod and (self._many or self._pod):
                self._write("platform", f"pod {pod}:\n".encode(), nanoseconds)
            elif not self._pod:
                # A log from a single pod has no platform line with the pod's name, so a separate file stores it.
                first_pod_file(self.file).write_text(pod, "utf-8")
            self._pod = pod
            self._write("stdout", masked, nanoseconds)

    def close(self) -> None:
        """Close the file; later lines are dropped."""
        with self._lock:
            self._closed = True
            self._writer.close()

    def _write(self, stream: str, data: bytes, nanoseconds: int) -> None:
        self._writer.write(stream, data, nanoseconds)
        self._remember(stream, data, nanoseconds)

    def _remember(self, stream: str, data: bytes, nanoseconds: int) -> None:
        if stream == "platform":
            if (match := POD.fullmatch(data)) is not None:
                self._pod = match[1].decode()
            return
        if len(data) == MAX_RECORD_BYTES and not data.endswith(b"\n"):
            return  # the line continues in the next record
        second, count = self._positions.get(self._pod, (0, 0))
        if nanoseconds // SECOND > second:
            self._positions[self._pod] = nanoseconds // SECOND, 1
        elif nanoseconds // SECOND == second:
            self._positions[self._pod] = second, count + 1


def first_pod_file(file: Path) -> Path:
    """The file with the name of the pod whose lines come first in a log, before any platform line."""
    return file.with_suffix(".pod")


def _read_first(file: Path) -> str:
    try:
        return first_pod_file(file).read_text("utf-8")
    except FileNotFoundError:
        return ""

"""Buffers the output of a run and writes masked, complete lines to its log.

Standard library only.
"""

import time

from fairlead.adapters.log_files import LogWriter
from fairlead.adapters.masking import Masker

MAX_LINE = 1 << 16  # longer lines are written in parts, so that output without line breaks does not fill memory
WAIT_SECONDS = 0.1  # how long to wait for the rest of a line, because programs may write it in several pieces


class LineBuffer:
    """The buffer of one output stream."""

    def __init__(self, stream: str, masker: Masker, log: LogWriter) -> None:
        self.stream, self.masker, self.log = stream, masker, log
        self.pending, self.since = b"", 0.0

    def feed(self, data: bytes) -> None:
        """Add output; write complete lines to the log."""
        self.since = self.since if self.pending else time.monotonic()
        self.pending += self.masker.feed(data)
        if len(self.pending) >= MAX_LINE:
            self._write(len(self.pending))
        else:
            self._write(self.pending.rfind(b"\n") + 1)

    def flush_stale(self) -> None:
        """Write a partial line that has waited long enough."""
        if self.pending and time.monotonic() - self.since > WAIT_SECONDS:
            self._write(len(self.pending))

    def finish(self) -> None:
        """Write all remaining output."""
        self.pending += self.masker.finish()
        self._write(len(self.pending))

    def _write(self, length: int) -> None:
        if length:
            self.log.write(self.stream, self.pending[:length], time.time_ns())
            self.pending, self.since = self.pending[length:], time.monotonic()

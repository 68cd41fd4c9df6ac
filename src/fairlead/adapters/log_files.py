"""The log file of a run: the output of each stream with timestamps, in order of arrival. Standard library only.

A record is a header (magic bytes, nanoseconds, stream, length) followed by the data. A cursor is the offset of a
record in the file.
"""

import contextlib
import os
import struct
import time
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

HEADER = struct.Struct("<4sQBI")
MAGIC = b"\xfa\x1e\x10\x6d"  # the first byte never occurs in UTF-8, so text in a log is never mistaken for a record
STREAMS = ("stdout", "stderr", "platform")
MAX_RECORD_BYTES = 1 << 20  # readers load whole records, so this limits their memory
MAX_LOG_BYTES = 1 << 30
LOG_FULL = b"the log has reached its maximum size; further output is discarded\n"
DISK_FULL = b"the disk was full; %d bytes of output were discarded\n"


class LogRecord(NamedTuple):
    """Data that one stream wrote, and the offset of the next record."""

    nanoseconds: int
    stream: str
    data: bytes
    end: int


class LogWriter:
    """Appends to a log up to its maximum size. A message in the log reports discarded output."""

    def __init__(self, file: Path, max_bytes: int = MAX_LOG_BYTES) -> None:
        # Unbuffered, so that each record is written with one call and readers see it at once.
        self._file: BinaryIO = file.open("ab", buffering=0)
        self._left = max_bytes - self._file.tell()
        self._lost = 0  # bytes discarded because of a full disk and not reported yet
        self.has_gaps = False

    def write(self, stream: str, data: bytes, nanoseconds: int) -> None:
        """Append a stream's output."""
        if not data or self._left < 0:
            return
        for start in range(0, len(data), MAX_RECORD_BYTES):
            piece = data[start : start + MAX_RECORD_BYTES]
            self._left -= len(piece)
            if self._left < 0:
                self._append("platform", LOG_FULL, nanoseconds)
                return
            self._append(stream, piece, nanoseconds)

    def _append(self, stream: str, data: bytes, nanoseconds: int) -> None:
        # After a gap, the message about it is written before anything else, so that it is in the right position.
        if self._lost and self._put("platform", DISK_FULL % self._lost, nanoseconds):
            self._lost = 0
        if self._lost or not self._put(stream, data, nanoseconds):
            self._lost, self.has_gaps = self._lost + len(data), True

    def _put(self, stream: str, data: bytes, nanoseconds: int) -> bool:
        """Write a complete record; return False if the disk is full. A partial record would hide all later ones."""
        record = HEADER.pack(MAGIC, nanoseconds, STREAMS.index(stream), len(data)) + data
        end = os.fstat(self._file.fileno()).st_size
        with contextlib.suppress(OSError):  # the run continues without this part of its log
            if self._file.write(record) == len(record):
                return True
            self._file.truncate(end)
        return False

    def close(self) -> None:
        """Report discarded output and close the file."""
        if self._lost:
            self._put("platform", DISK_FULL % self._lost, time.time_ns())
        self._file.close()


def read_records(file: Path, start: int, max_bytes: int) -> Iterator[LogRecord]:
    """Yield records starting at a cursor, at least one and up to about `max_bytes`. A partial last record is skipped.

    Raises ValueError if no record begins at the cursor.
    """
    try:
        reader = file.open("rb")
    except FileNotFoundError:
        return
    with reader:
        size = os.fstat(reader.fileno()).st_size  # an active run keeps appending; the next call reads the rest
        if not 0 <= start <= size:
            raise ValueError("the cursor is outside the log")
        reader.seek(start)
        while max_bytes > 0 and start < size:
            header = reader.read(HEADER.size)
            if not header.startswith(MAGIC[: len(header)]):
                raise ValueError("no record begins at the cursor")
            if len(header) < HEADER.size:
                return
            _, nanoseconds, stream, length = HEADER.unpack(header)
            if stream >= len(STREAMS) or length > MAX_RECORD_BYTES:
                raise ValueError("no record begins at the cursor")
            if start + HEADER.size + length > size:
                return
            start += HEADER.size + length
            max_bytes -= length + HEADER.size
            yield LogRecord(nanoseconds, STREAMS[stream], reader.read(length), start)

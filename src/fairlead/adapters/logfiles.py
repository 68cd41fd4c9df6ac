"""The log of a run as a file: what each stream wrote, when, in the order in which it came. Standard library only.

A record is a header (a mark, nanoseconds, stream, length) and that many bytes. A cursor is the place of a record in the
file.
"""

import contextlib
import os
import struct
import time
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

HEADER = struct.Struct("<4sQBI")
MARK = b"\xfa\x1e\x10\x6d"
STREAMS = ("stdout", "stderr", "platform")
LARGEST_RECORD = 1 << 20
LARGEST_LOG = 1 << 30
FULL = b"the log has reached its largest size: what follows is not kept\n"
NO_ROOM = b"the disk was full: %d bytes are not kept\n"


class Piece(NamedTuple):
    """Bytes that one stream wrote at one moment, and where the next record begins."""

    nanoseconds: int
    stream: str
    data: bytes
    end: int


class LogWriter:
    """Appends to a log, up to its largest size; then says once that the rest is not kept. So it does of gaps."""

    def __init__(self, file: Path, largest: int = LARGEST_LOG) -> None:
        self._file: BinaryIO = file.open("ab", buffering=0)
        self._left = largest - self._file.tell()
        self._lost = 0  # bytes, for want of room, and not told yet
        self.has_gaps = False

    def write(self, stream: str, data: bytes, nanoseconds: int) -> None:
        """Keep what a stream wrote."""
        if not data or self._left < 0:
            return
        for start in range(0, len(data), LARGEST_RECORD):
            piece = data[start : start + LARGEST_RECORD]
            self._left -= len(piece)
            if self._left < 0:
                self._append("platform", FULL, nanoseconds)
                return
            self._append(stream, piece, nanoseconds)

    def _append(self, stream: str, data: bytes, nanoseconds: int) -> None:
        if self._lost and self._put("platform", NO_ROOM % self._lost, nanoseconds):
            self._lost = 0
        if self._lost or not self._put(stream, data, nanoseconds):
            self._lost, self.has_gaps = self._lost + len(data), True

    def _put(self, stream: str, data: bytes, nanoseconds: int) -> bool:
        """Write a record, whole or not at all: half of one would hide what follows. False where the disk is full."""
        record = HEADER.pack(MARK, nanoseconds, STREAMS.index(stream), len(data)) + data
        end = os.fstat(self._file.fileno()).st_size
        with contextlib.suppress(OSError):  # the run goes on without this part of its log
            if self._file.write(record) == len(record):
                return True
            self._file.truncate(end)
        return False

    def close(self) -> None:
        """Keep all of it."""
        if self._lost:
            self._put("platform", NO_ROOM % self._lost, time.time_ns())
        self._file.close()


def read_pieces(file: Path, start: int, max_bytes: int) -> Iterator[Piece]:
    """The records from a cursor on, at least one and no more than about so many bytes. One that is half written waits.

    Raise ValueError where no record begins at the cursor.
    """
    try:
        opened = file.open("rb")
    except FileNotFoundError:
        return
    with opened:
        size = os.fstat(opened.fileno()).st_size
        if not 0 <= start <= size:
            raise ValueError("the log is not that long")
        opened.seek(start)
        while max_bytes > 0 and start < size:
            header = opened.read(HEADER.size)
            if not header.startswith(MARK[: len(header)]):
                raise ValueError("no record begins there")
            if len(header) < HEADER.size:
                return
            _, nanoseconds, stream, length = HEADER.unpack(header)
            if stream >= len(STREAMS) or length > LARGEST_RECORD:
                raise ValueError("no record begins there")
            if start + HEADER.size + length > size:
                return
            start += HEADER.size + length
            max_bytes -= length + HEADER.size
            yield Piece(nanoseconds, STREAMS[stream], opened.read(length), start)

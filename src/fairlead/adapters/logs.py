"""The log file of a run: output with timestamps, in order of arrival, with secrets masked. Standard library only.

A record is a header (magic bytes, nanoseconds, stream, length) followed by the data. A cursor is the offset of a
record in the file.
"""

import contextlib
import json
import os
import struct
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

HEADER = struct.Struct("<4sQBI")
MAGIC = b"\xfa\x1e\x10\x6d"  # the first byte never occurs in UTF-8, so text in a log is never mistaken for a record
STREAMS = ("stdout", "stderr", "platform")
MAX_RECORD_BYTES = 1 << 20  # readers load whole records, so this limits their memory
MAX_LOG_BYTES = 1 << 30
LOG_FULL = b"the log has reached its maximum size; further output is discarded\n"
DISK_FULL = b"the disk was full; %d bytes of output were discarded\n"

MASK = b"***"
MIN_LENGTH = 4  # masking shorter values would make logs unreadable


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


class Masker:
    """Masks one stream. Buffers output that may be the beginning of a secret or of a UTF-8 character."""

    def __init__(self, secrets: Iterable[str]) -> None:
        self._words = sorted({word for secret in secrets for word in _variants(secret)})
        # If a program repeats the beginning of a secret, its output must not be buffered forever.
        self._max_buffered = 2 * max(map(len, self._words), default=0)
        self._buffer = b""
        self._masked = 0  # bytes at the start of the buffer that belong to a secret whose mask was already written

    def feed(self, data: bytes) -> bytes:
        """Add output; return the output that can be shown."""
        data = self._buffer + data
        unfinished = max((_overlap(data, word) for word in self._words), default=0)
        cut = len(data) - max(unfinished, _unfinished_character(data))
        spans = self._find(data)
        for start, end in spans:
            # A secret is masked as a whole or buffered as a whole. If the buffer would get too large, mask it in parts.
            already_masked = self._masked > 0 and start == 0
            if start < cut < end and not already_masked and len(data) - start <= self._max_buffered:
                cut = start
        shown = self._hide(data[:cut], spans)
        begun = [end - cut for start, end in spans if end > cut and (start < cut or (self._masked and start == 0))]
        self._buffer, self._masked = data[cut:], max(begun, default=0)
        return shown

    def finish(self) -> bytes:
        """Return the rest of the buffer at the end of the stream."""
        shown = self._hide(self._buffer, self._find(self._buffer))
        self._buffer, self._masked = b"", 0
        return shown

    def mask(self, text: str) -> str:
        """Mask a whole text."""
        return self.mask_bytes(text.encode("utf-8", "replace")).decode("utf-8")

    def mask_bytes(self, data: bytes) -> bytes:
        """Mask a whole byte string."""
        return self._hide(data, self._find(data))

    def _hide(self, data: bytes, spans: list[tuple[int, int]]) -> bytes:
        shown, at = [], 0
        for start, end in spans:
            if start < len(data):
                shown += [data[at:start], b"" if self._masked and start == 0 else MASK]
                at = end
        return b"".join([*shown, data[at:]])

    def _find(self, data: bytes) -> list[tuple[int, int]]:
        """Return the spans of secrets; overlapping spans are merged."""
        merged = [(0, self._masked)] if self._masked else []
        for start, end in sorted(span for word in self._words for span in _list_spans(data, word)):
            if merged and start < merged[-1][1]:
                merged[-1] = merged[-1][0], max(end, merged[-1][1])
            else:
                merged.append((start, end))
        return merged


def _list_spans(data: bytes, word: bytes) -> Iterator[tuple[int, int]]:
    at = data.find(word)
    while at >= 0:
        yield at, at + len(word)
        at = data.find(word, at + 1)  # not after the word, because a secret such as "abab" can overlap itself


def _overlap(data: bytes, word: bytes) -> int:
    """Return how many bytes at the end of the data are the beginning, but not all, of a word."""
    at = data.find(word[:1], max(len(data) - len(word) + 1, 0))
    while at >= 0 and not word.startswith(data[at:]):
        # Search for the first few bytes at once: a search byte by byte would take seconds if a secret is a whole file.
        ahead = data.find(word[:MIN_LENGTH], at + 1)
        at = ahead if ahead >= 0 else data.find(word[:1], max(at + 1, len(data) - MIN_LENGTH + 1))
    return len(data) - at if at >= 0 else 0


def _variants(secret: str) -> list[bytes]:
    """Return a secret in the forms that logs may show: as a whole, and line by line if it has several lines."""
    parts = {secret, secret.strip(), *secret.splitlines()}
    spelled = {word for part in parts if len(part) >= MIN_LENGTH for word in _quote(part)}
    return [word.encode("utf-8", "replace") for word in spelled]


def _quote(part: str) -> Iterator[str]:
    """Yield a string unchanged, and as Python and JSON quote it in tracebacks and printed dictionaries."""
    yield part
    yield from (
        shown[1:-1] for shown in (repr(part), ascii(part), json.dumps(part), json.dumps(part, ensure_ascii=False))
    )
    yield repr(part.encode("utf-8", "replace"))[2:-1]


def _unfinished_character(data: bytes) -> int:
    """Return how many bytes at the end are an incomplete UTF-8 character."""
    for back in range(1, min(4, len(data) + 1)):
        byte = data[-back]
        if byte & 0b1100_0000 != 0b1000_0000:  # the first byte of a character
            length = 2 if byte >> 5 == 0b110 else 3 if byte >> 4 == 0b1110 else 4 if byte >> 3 == 0b11110 else 1
            return back if length > back else 0
    return 0

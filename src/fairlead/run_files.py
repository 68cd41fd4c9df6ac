"""Run files in the store: uploads from runs on clusters, and their saved logs.

A file belongs to one attempt of a run, is deleted with the run, and is replaced as a whole. Its content is stored in
parts, so that listing files is fast and a large file is never loaded into memory as a whole.
"""

import io
from datetime import datetime
from typing import Any, BinaryIO, cast

from fairlead.errors import NotFound
from fairlead.lifecycle import attempts
from fairlead.lifecycle.attempts import run_id_of
from fairlead.model.columns import Condition
from fairlead.model.parsing import short_repr
from fairlead.model.records import FilePartRecord, RunFileRecord
from fairlead.ports import Store, Transaction

PART_BYTES = 1024 * 1024  # each part is read into memory as a whole; smaller parts would need more rows
OUTPUT = "output/"  # path prefix of files in the output folder


def save_file(tx: Transaction, execution: str, path: str, content: bytes | BinaryIO, now: datetime) -> RunFileRecord:
    """Save a file, replacing any file with the same path. Raises `Conflict` if the run was deleted."""
    source = io.BytesIO(content) if isinstance(content, bytes) else content
    size = source.seek(0, io.SEEK_END)
    source.seek(0)
    of = {"id": _id_of(execution, path), "run_id": run_id_of(execution)}
    record = RunFileRecord(**of, path=path, size=size, modified_at=now)
    # Deleting a file also deletes its parts.
    tx.remove_all(RunFileRecord, Condition("id", "=", record.id))
    tx.add(record)
    for number in range(-(-size // PART_BYTES)):
        # The number is padded with zeros, so that sorting by ID returns the parts in order.
        part_id = f"{record.id}/{number:05}"
        tx.add(FilePartRecord(id=part_id, file_id=record.id, number=number, content=source.read(PART_BYTES)))
    return record


def load_file(tx: Transaction, execution: str, path: str) -> bytes | None:
    """Return the content of a file; None if it does not exist."""
    size = load_size(tx, execution, path)
    return None if size is None else load_range(tx, execution, path, 0, size)


def load_range(tx: Transaction, execution: str, path: str, start: int, max_bytes: int) -> bytes:
    """Return part of a file; empty at its end, or if it does not exist."""
    return _load_parts(tx, _id_of(execution, path), start, max_bytes)


def open_file(store: Store, execution: str, path: str) -> BinaryIO:
    """Open a file for reading part by part. Raises `NotFound` if it does not exist."""
    with store.reading() as tx:
        record = tx.get(RunFileRecord, id=_id_of(execution, path))
    if record is None:
        whose, named = attempts.describe_execution(execution), short_repr(path.removeprefix(OUTPUT))
        raise NotFound(f"{whose} has no output file {named}", "list the run's output files")
    # The buffer is as large as a part, so that each transaction reads about one part.
    return cast(BinaryIO, io.BufferedReader(_Parts(store, record), PART_BYTES))


def list_files(tx: Transaction, execution: str, prefix: str = "") -> list[RunFileRecord]:
    """Return the files whose paths begin with a prefix, sorted by path."""
    return tx.find(RunFileRecord, *_prefix_range(execution, prefix))


def load_size(tx: Transaction, execution: str, path: str) -> int | None:
    """Return the size of a file in bytes; None if it does not exist."""
    record = tx.get(RunFileRecord, id=_id_of(execution, path))
    return None if record is None else record.size


def measure_files(tx: Transaction, execution: str, prefix: str = "") -> tuple[int, int]:
    """Return the number and total size of the files whose paths begin with a prefix."""
    # The store can count but not sum, so it counts files by size and the sum is computed here.
    counts = tx.tally(RunFileRecord, ["size"], *_prefix_range(execution, prefix))
    return sum(counts.values()), sum(size * count for (size,), count in counts.items())


def remove_files(tx: Transaction, execution: str, prefix: str = "") -> int:
    """Delete the files whose paths begin with a prefix and return their number."""
    return tx.remove_all(RunFileRecord, *_prefix_range(execution, prefix))


class _Parts(io.RawIOBase):
    """Reads a file with one transaction per part, so that a slow reader does not block other transactions."""

    def __init__(self, store: Store, record: RunFileRecord) -> None:
        self._store, self._record, self._at = store, record, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer)
        size = min(len(view), self._record.size - self._at)
        with self._store.reading() as tx:
            content = _load_parts(tx, self._record.id, self._at, size)
        if len(content) < size:
            # The caller may already have the first parts, and must not mistake them for the whole file.
            raise OSError(f"file {short_repr(self._record.path)} of run {self._record.run_id} was deleted")
        view[:size] = content
        self._at += size
        return size


def _load_parts(tx: Transaction, file_id: str, start: int, size: int) -> bytes:
    if size <= 0:
        return b""
    first, last = start // PART_BYTES, (start + size - 1) // PART_BYTES
    within = (Condition("number", ">=", first), Condition("number", "<=", last))
    parts = tx.find(FilePartRecord, Condition("file_id", "=", file_id), *within)
    offset = start - first * PART_BYTES
    return b"".join(part.content for part in parts)[offset : offset + size]


def _id_of(execution: str, path: str) -> str:
    return f"{execution}/{path}"


def _prefix_range(execution: str, prefix: str) -> tuple[Condition, Condition]:
    """Return the range of IDs that begin with an attempt and a path. IDs are compared by code point."""
    # A range is used, because LIKE would need escaping and SQLite would not use the index for it.
    first = _id_of(execution, prefix)
    return Condition("id", ">=", first), Condition("id", "<", first[:-1] + chr(ord(first[-1]) + 1))

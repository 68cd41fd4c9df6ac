"""Files of runs in the store: what runs that are executed elsewhere hand over, and what is saved of their logs.

A file has a path among those of one try of a run, goes with the run, and is replaced as a whole. What is in it lies
apart, in parts: listing reads none of it, and neither writing nor reading a large file holds all of it.
"""

import io
from datetime import datetime
from typing import Any, BinaryIO, cast

from fairlead.core import attempts
from fairlead.core.attempts import run_of
from fairlead.errors import NotFound
from fairlead.model.parsing import show
from fairlead.model.queries import Condition
from fairlead.model.records import FilePartRecord, RunFileRecord
from fairlead.ports import Store, Transaction

PART = 1024 * 1024
OUTPUT = "output/"  # what the paths of files of the output folder begin with


def save_file(tx: Transaction, execution: str, path: str, content: bytes | BinaryIO, now: datetime) -> RunFileRecord:
    """Keep a file, in the place of one of the same path. Raise `Conflict` where the run is not there any more."""
    source = io.BytesIO(content) if isinstance(content, bytes) else content
    size = source.seek(0, io.SEEK_END)
    source.seek(0)
    of = {"id": _id_of(execution, path), "run_id": run_of(execution)}
    record = RunFileRecord(**of, path=path, size=size, modified_at=now)
    tx.remove_all(RunFileRecord, Condition("id", "=", record.id))
    tx.add(record)
    for number in range(-(-size // PART)):
        part_id = f"{record.id}/{number:05}"
        tx.add(FilePartRecord(id=part_id, file_id=record.id, number=number, content=source.read(PART)))
    return record


def load_file(tx: Transaction, execution: str, path: str) -> bytes | None:
    """All that is in a file; None where there is none."""
    size = load_size(tx, execution, path)
    return None if size is None else load_range(tx, execution, path, 0, size)


def load_range(tx: Transaction, execution: str, path: str, start: int, most: int) -> bytes:
    """What is in a file from a place on, up to so many bytes; nothing at its end, or where there is none."""
    return _load_parts(tx, _id_of(execution, path), start, most)


def open_file(store: Store, execution: str, path: str) -> BinaryIO:
    """A file, read part by part. Raise `NotFound` where there is none."""
    with store.reading() as tx:
        record = tx.get(RunFileRecord, id=_id_of(execution, path))
    if record is None:
        whose, named = attempts.tell(execution), show(path.removeprefix(OUTPUT))
        raise NotFound(f"{whose} left no file {named}", "list its files to see what it left")
    return cast(BinaryIO, io.BufferedReader(_Parts(store, record), PART))


def list_files(tx: Transaction, execution: str, under: str = "") -> list[RunFileRecord]:
    """The files whose paths begin with something, by their paths."""
    return tx.find(RunFileRecord, *_beginning(execution, under))


def load_size(tx: Transaction, execution: str, path: str) -> int | None:
    """How many bytes are in a file; None where there is none."""
    record = tx.get(RunFileRecord, id=_id_of(execution, path))
    return None if record is None else record.size


def measure_files(tx: Transaction, execution: str, under: str = "") -> tuple[int, int]:
    """How many files there are whose paths begin with something, and how many bytes are in them."""
    found = tx.tally(RunFileRecord, ["size"], *_beginning(execution, under))
    return sum(found.values()), sum(size * count for (size,), count in found.items())


def remove_files(tx: Transaction, execution: str, under: str = "") -> int:
    """Forget the files whose paths begin with something; how many there were."""
    return tx.remove_all(RunFileRecord, *_beginning(execution, under))


class _Parts(io.RawIOBase):
    """What is in a file, each part in a look of its own: whoever reads slowly holds up nobody."""

    def __init__(self, store: Store, record: RunFileRecord) -> None:
        self._store, self._record, self._at = store, record, 0

    def readable(self) -> bool:
        return True

    def readinto(self, into: Any) -> int:
        view = memoryview(into)
        most = min(len(view), self._record.size - self._at)
        with self._store.reading() as tx:
            found = _load_parts(tx, self._record.id, self._at, most)
        if len(found) < most:
            raise OSError(f"file {show(self._record.path)} of run {self._record.run_id} is not there any more")
        view[:most] = found
        self._at += most
        return most


def _load_parts(tx: Transaction, file_id: str, start: int, most: int) -> bytes:
    if most <= 0:
        return b""
    first, last = start // PART, (start + most - 1) // PART
    within = (Condition("number", ">=", first), Condition("number", "<=", last))
    parts = tx.find(FilePartRecord, Condition("file_id", "=", file_id), *within)
    skipped = start - first * PART
    return b"".join(part.content for part in parts)[skipped : skipped + most]


def _id_of(execution: str, path: str) -> str:
    return f"{execution}/{path}"


def _beginning(execution: str, under: str) -> tuple[Condition, Condition]:
    """That an id begins with a try and a path, as a range: ids are ordered by the codes of their letters."""
    first = _id_of(execution, under)
    return Condition("id", ">=", first), Condition("id", "<", first[:-1] + chr(ord(first[-1]) + 1))

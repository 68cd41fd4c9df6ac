"""What a run that is executed elsewhere fetches and hands over, with a token that is good for nothing else."""

import contextlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import BinaryIO

from fairlead.core import attempts
from fairlead.core.attempts import attempt_of, execution_of, run_id_of
from fairlead.core.outcomes import LARGEST_LEFT, parse_outcome, read_result
from fairlead.errors import Forbidden, NotFound, RequestRejected, Unauthenticated
from fairlead.model.parsing import short_repr
from fairlead.model.plans import Violation
from fairlead.model.records import BlobRecord, RunRecord
from fairlead.ports import Keyring, Principal
from fairlead.run_files import OUTPUT, load_size, measure_files, save_file
from fairlead.run_tokens import is_run_token, open_run_token
from fairlead.services.calls import Call
from fairlead.services.executions import find_run
from fairlead.services.unit_of_work import UnitOfWork, UnitOfWorkFactory

LEFT = ("result.json", "error.json")
LARGEST_FILE = 64 * 1024 * 1024
LARGEST_OUTPUT = 256 * 1024 * 1024
MOST_FILES = 10_000
LONGEST_PATH = 1000
TO_A_VOLUME = "write it to a volume"


@dataclass(frozen=True)
class UploadedFile:
    """A file that was handed over."""

    path: str
    size: int


class RunUploads:
    """The use cases of runs themselves."""

    def __init__(self, units: UnitOfWorkFactory, keyring: Keyring) -> None:
        self.units, self.keyring = units, keyring

    def admit(self, call: Call, run_id: str) -> None:
        """Raise unless the caller is a run that goes on, and this one."""
        with self._opened(self.units.reading, call, run_id):
            pass

    def code(self, call: Call, run_id: str) -> bytes:
        """The packed code that the run executes."""
        with self._opened(self.units.reading, call, run_id) as (unit, run):
            kept = None if run.code is None else unit.tx.get(BlobRecord, id=run.code)
            if kept is None:
                raise NotFound(f"run {run_id} has no code of its own")
            return kept.content

    def put(self, call: Call, run_id: str, path: str, content: BinaryIO) -> UploadedFile:
        """Keep a file of the run, in the place of one of the same path."""
        check_path(path)
        if path in LEFT:
            _check_left(path, content)
        with self._opened(self.units.recording, call, run_id) as (unit, run):
            execution = execution_of(run_id, run.attempt)
            if path not in LEFT:
                _check_room(unit, execution, path, _measure(content))
            kept = save_file(unit.tx, execution, path, content, unit.now)
            return UploadedFile(kept.path, kept.size)

    @contextlib.contextmanager
    def _opened(
        self, opening: Callable[[Call], AbstractContextManager[UnitOfWork]], call: Call, run_id: str
    ) -> Iterator[tuple[UnitOfWork, RunRecord]]:
        """A use case of a run's present try. Who has another token gets what they would get anywhere else for a run."""
        if not is_run_token(call.bearer):
            with self.units.reading(call) as unit:
                find_run(unit, run_id)
            raise Forbidden(f"only run {run_id} itself hands over what it leaves", "read its files instead")
        execution = open_run_token(self.keyring, call.bearer or "")
        if run_id_of(execution) != run_id:
            raise NotFound(f"there is no run {short_repr(run_id)}")
        with opening(replace(call, principal=Principal(f"run/{run_id}", via="run-token"))) as unit:
            run = unit.tx.get(RunRecord, id=run_id)
            if run is None:
                raise NotFound(f"there is no run {short_repr(run_id)}")
            if attempt_of(execution) != run.attempt:
                message = f"attempt {attempt_of(execution)} of run {run_id} is over: its token is good only until then"
                raise Unauthenticated(message, "there is nothing more to hand over")
            if not run.active or run.server_id is None:
                message = f"run {run_id} is {run.state}: its token is good only while it is executed"
                raise Unauthenticated(message, "there is nothing more to hand over")
            yield unit, run


def check_path(path: str) -> None:
    """Raise where a path is none that a run hands over."""
    odd = ""
    parts = path.split("/")
    if path not in LEFT and (parts[0] != OUTPUT.rstrip("/") or len(parts) < 2):
        odd = f"{short_repr(path)} is nothing that a run hands over"
    elif any(part in ("", ".", "..") or "\0" in part for part in parts):
        odd = f"{short_repr(path)} is no path below the output folder"
    elif any("\ud800" <= letter <= "\udfff" for letter in path):
        odd = "a path with half a character"
    elif len(path.encode()) > LONGEST_PATH:
        odd = f"the path has {len(path.encode()):,} bytes; at most {LONGEST_PATH:,} are kept"
    if odd:
        hint = f"hand over {', '.join(LEFT)} or {OUTPUT} and the path of a file, of at most {LONGEST_PATH:,} bytes"
        raise RequestRejected([Violation("path", "path", odd, hint)])


def _check_left(path: str, content: BinaryIO) -> None:
    """Raise where a result or an error is too large, or is none that the bootstrap leaves."""
    size = _measure(content)
    if size > LARGEST_LEFT:
        message = f"{path} has {size:,} bytes; at most {LARGEST_LEFT:,} are kept"
        raise RequestRejected([Violation("body", "max", message, f"{TO_A_VOLUME}, or to a file of the output folder")])
    found = parse_outcome(content.read())
    known = read_result(found) if path == "result.json" else found
    if known is None:
        message = f"is no {path.partition('.')[0]} as the bootstrap leaves it"
        raise RequestRejected([Violation("body", "json", message, "hand over files below output/ instead")])


def _check_room(unit: UnitOfWork, execution: str, path: str, size: int) -> None:
    """Raise where a try leaves more than is kept. Files that come at once may go past that, each once."""
    before, whose = load_size(unit.tx, execution, path), attempts.describe_execution(execution)
    count, total = measure_files(unit.tx, execution, OUTPUT)
    total -= before or 0
    if before is None and count >= MOST_FILES:
        message = f"{whose} has handed over {count:,} files; at most {MOST_FILES:,} are kept"
        raise RequestRejected([Violation("path", "max", message, "pack them into one, or write them to a volume")])
    if total + size > LARGEST_OUTPUT:
        message = f"has {size:,} bytes, and {whose} has handed over {total:,}; at most {LARGEST_OUTPUT:,} are kept"
        raise RequestRejected([Violation("body", "max", message, TO_A_VOLUME)])


def _measure(content: BinaryIO) -> int:
    size = content.seek(0, 2)
    content.seek(0)
    return size

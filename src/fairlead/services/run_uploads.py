"""Downloads and uploads by active runs on clusters, authenticated with the run token."""

import contextlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import BinaryIO

from fairlead.errors import Forbidden, NotFound, RequestRejected, Unauthenticated
from fairlead.lifecycle import attempts
from fairlead.lifecycle.attempts import attempt_of, execution_of, run_id_of
from fairlead.lifecycle.lifecycle import MAX_OUTCOME_BYTES, parse_outcome, read_result
from fairlead.model.parsing import short_repr
from fairlead.model.plans import Violation
from fairlead.model.records import BlobRecord, RunRecord
from fairlead.ports import Keyring, Principal
from fairlead.run_files import OUTPUT, load_size, measure_files, save_file
from fairlead.run_tokens import is_run_token, open_run_token
from fairlead.services.calls import Call
from fairlead.services.executions import find_run
from fairlead.services.unit_of_work import UnitOfWork, UnitOfWorkFactory

RESULT_FILES = ("result.json", "error.json")
# Uploads are limited because they are stored in the database; large data belongs in volumes. The sidecar has the same
# limits.
MAX_FILE_BYTES = 64 * 1024 * 1024
MAX_OUTPUT_BYTES = 256 * 1024 * 1024
MAX_OUTPUT_FILES = 10_000
MAX_PATH_BYTES = 1000
USE_VOLUME_HINT = "write it to a volume"


@dataclass(frozen=True)
class UploadedFile:
    """A file that a run uploaded."""

    path: str
    size: int


class RunUploads:
    """Serves code to runs and stores the files that they upload."""

    def __init__(self, units: UnitOfWorkFactory, keyring: Keyring) -> None:
        self.units, self.keyring = units, keyring

    def authenticate(self, call: Call, run_id: str) -> None:
        """Raise an error unless the caller has the run's token and the run is active."""
        with self._authenticated(self.units.reading, call, run_id):
            pass

    def code(self, call: Call, run_id: str) -> bytes:
        """Return the code of the run as a tar.gz archive."""
        with self._authenticated(self.units.reading, call, run_id) as (unit, run):
            blob = None if run.code is None else unit.tx.get(BlobRecord, id=run.code)
            if blob is None:
                raise NotFound(f"run {run_id} has no code")
            return blob.content

    def put(self, call: Call, run_id: str, path: str, content: BinaryIO) -> UploadedFile:
        """Store a file for the run, replacing any file with the same path."""
        check_path(path)
        if path in RESULT_FILES:
            _check_result_file(path, content)
        with self._authenticated(self.units.recording, call, run_id) as (unit, run):
            execution = execution_of(run_id, run.attempt)
            if path not in RESULT_FILES:
                _check_output_limits(unit, execution, path, _measure(content))
            file = save_file(unit.tx, execution, path, content, unit.now)
            return UploadedFile(file.path, file.size)

    @contextlib.contextmanager
    def _authenticated(
        self, open_unit: Callable[[Call], AbstractContextManager[UnitOfWork]], call: Call, run_id: str
    ) -> Iterator[tuple[UnitOfWork, RunRecord]]:
        """Open a unit of work as a run's current attempt. User tokens get the same errors as when reading a run."""
        if not is_run_token(call.bearer):
            with self.units.reading(call) as unit:
                find_run(unit, run_id)
            raise Forbidden(f"only run {run_id} itself can upload its files", "read its files instead")
        execution = open_run_token(self.keyring, call.bearer or "")
        # A run that does not exist causes the same error, so that a token cannot be used to discover other runs.
        if run_id_of(execution) != run_id:
            raise NotFound(f"run {short_repr(run_id)} does not exist")
        with open_unit(replace(call, principal=Principal(f"run/{run_id}", via="run-token"))) as unit:
            run = unit.tx.get(RunRecord, id=run_id)
            if run is None:
                raise NotFound(f"run {short_repr(run_id)} does not exist")
            if attempt_of(execution) != run.attempt:
                message = f"attempt {attempt_of(execution)} of run {run_id} has ended, so its token has expired"
                raise Unauthenticated(message, "stop uploading: the files of this attempt are complete")
            if not run.active or run.server_id is None:
                message = f"run {run_id} is {run.state}, so its token has expired"
                raise Unauthenticated(message, "stop uploading: the files of this run are complete")
            yield unit, run


def check_path(path: str) -> None:
    """Raise `RequestRejected` if a run may not upload a file with this path."""
    problem = ""
    parts = path.split("/")
    if path not in RESULT_FILES and (parts[0] != OUTPUT.rstrip("/") or len(parts) < 2):
        problem = f"invalid path {short_repr(path)}: it is neither a result file nor in {OUTPUT}"
    elif any(part in ("", ".", "..") or "\0" in part for part in parts):
        problem = f"invalid path {short_repr(path)}: it is not inside {OUTPUT}"
    # Such a path cannot be encoded as UTF-8, either here or in the database.
    elif any("\ud800" <= character <= "\udfff" for character in path):
        problem = "the path contains an unpaired surrogate"
    elif len(path.encode()) > MAX_PATH_BYTES:
        problem = f"the path has {len(path.encode()):,} bytes; at most {MAX_PATH_BYTES:,} are allowed"
    if problem:
        hint = f"use {' or '.join(RESULT_FILES)}, or a path in {OUTPUT} with at most {MAX_PATH_BYTES:,} bytes"
        raise RequestRejected([Violation("path", "path", problem, hint)])


def _check_result_file(path: str, content: BinaryIO) -> None:
    """Raise `RequestRejected` if a result or error is too large or was not written by the bootstrap program."""
    size = _measure(content)
    if size > MAX_OUTCOME_BYTES:
        message = f"{path} has {size:,} bytes; at most {MAX_OUTCOME_BYTES:,} are allowed"
        raise RequestRejected(
            [Violation("body", "max", message, f"{USE_VOLUME_HINT}, or to a file in the output folder")]
        )
    data = parse_outcome(content.read())
    parsed = read_result(data) if path == "result.json" else data
    if parsed is None:
        message = f"is not a valid {path.partition('.')[0]} from the bootstrap program"
        raise RequestRejected([Violation("body", "json", message, f"upload other files to {OUTPUT}")])


def _check_output_limits(unit: UnitOfWork, execution: str, path: str, size: int) -> None:
    """Raise `RequestRejected` if an attempt's output exceeds a limit.

    Concurrent uploads may exceed a limit once, because they do not see each other.
    """
    before, run_name = load_size(unit.tx, execution, path), attempts.describe_execution(execution)
    count, total = measure_files(unit.tx, execution, OUTPUT)
    # An upload replaces the file with the same path, so its size does not count twice.
    total -= before or 0
    if before is None and count >= MAX_OUTPUT_FILES:
        message = f"{run_name} has already uploaded {count:,} files; at most {MAX_OUTPUT_FILES:,} are allowed"
        raise RequestRejected([Violation("path", "max", message, "pack them into one file, or use a volume")])
    if total + size > MAX_OUTPUT_BYTES:
        message = f"has {size:,} bytes, and {run_name} has uploaded {total:,}; at most {MAX_OUTPUT_BYTES:,} are allowed"
        raise RequestRejected([Violation("body", "max", message, USE_VOLUME_HINT)])


def _measure(content: BinaryIO) -> int:
    size = content.seek(0, 2)
    content.seek(0)
    return size

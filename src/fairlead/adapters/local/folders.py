"""Reads and writes the files in a run's folder, and lists and opens its output files.

Symbolic links in the output are not followed, so no file outside the folder is read.
"""

import contextlib
import fcntl
import json
import os
import secrets
import stat
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import count, islice
from pathlib import Path
from typing import Any, BinaryIO

from fairlead.adapters.local.specs import (
    ERRORS,
    LOCK,
    LOG,
    OUTCOME,
    STATE,
    USAGE,
    link_to_temporary,
    read_json,
    write_json,
)
from fairlead.adapters.log_pages import read_page
from fairlead.errors import NotFound
from fairlead.model.runs import LogPage, Observation, OutputFile, Phase

PHASES = {"starting": Phase.STARTING, "running": Phase.RUNNING, "degraded": Phase.DEGRADED}
OUTPUT_FOLDER = "output"  # in the run's home; the only part that remains after clean-up

JSON = dict[str, Any]

MAX_FILES, MAX_DEPTH = 10_000, 50  # each folder level needs an open file descriptor
OPEN_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
OPEN_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK  # opening a named pipe must not block


class RunFolder:
    """The folder of a run."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def state(self) -> JSON | None:
        """The state written by the supervisor; None before it has started."""
        return self._read(STATE)

    @property
    def outcome(self) -> JSON | None:
        """The outcome of the run; None before it has ended."""
        return self._read(OUTCOME)

    @property
    def has_ended(self) -> bool:
        return (self.path / OUTCOME).exists()

    @property
    def was_started(self) -> bool:
        """Whether a supervisor has started the run, even if the run has ended."""
        return self.state is not None or self.has_ended

    @property
    def is_supervised(self) -> bool:
        """Whether a supervisor holds the run's lock."""
        # Use a shared lock, so that two servers that check at the same time do not mistake each other for a supervisor.
        try:
            with (self.path / LOCK).open() as lock:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except FileNotFoundError:
            pass
        return False

    @property
    def supervisor_error(self) -> str:
        """The last line of the supervisor's stderr; empty if it was killed."""
        try:
            return ((self.path / ERRORS).read_text("utf-8", "replace").strip().splitlines() or [""])[-1]
        except OSError:
            return ""

    def fail(self, reason: str, message: str, started_at: float | None = None) -> JSON:
        """Write an outcome for a run whose supervisor did not write one."""
        unknown: JSON = {"exit_code": None, "stopped": False, "result": None, "error": None, "usage": {}}
        times = {"started_at": started_at, "finished_at": datetime.now(UTC).timestamp()}
        outcome = {"phase": str(Phase.FAILED), "reason": reason, "message": message, **unknown, **times}
        write_json(self.path / OUTCOME, outcome)
        return outcome

    def read_log(self, cursor: int, max_bytes: int) -> LogPage:
        """Return the log starting at `cursor`. Raises `NotFound` if it was deleted."""
        if not self.path.exists():
            raise NotFound(f"the log of run {self.path.name} was deleted")
        ended = self.has_ended  # read first, so that nothing written before the end is missed
        return read_page(self.path / LOG, cursor, max_bytes, ended=ended)

    def read_usage(self) -> list[JSON]:
        """Return the usage samples of the run, oldest first."""
        try:
            lines = (self.path / USAGE).read_text("utf-8").splitlines(keepends=True)
        except FileNotFoundError:
            return []
        samples = []
        for line in lines:
            with contextlib.suppress(ValueError):  # a partial line: still being written, or cut off by a full disk
                samples.append(json.loads(line))
        return [{**sample, "at": _to_datetime(sample["at"])} for sample in samples]

    def _read(self, name: str) -> JSON | None:
        content: JSON | None = read_json(self.path / name)
        return content

    def delete(self) -> None:
        """Remove everything."""
        link_to_temporary(self.path).unlink(missing_ok=True)
        remove_tree(self.path)

    def clean_up(self) -> None:
        """Remove the files that a run needs only while it is active."""
        if not (self.path / "code").exists():
            return  # already done
        link_to_temporary(self.path).unlink(missing_ok=True)
        for name in ("volumes", "temporary", "root"):
            remove_tree(self.path / name)
        with contextlib.suppress(FileNotFoundError), os.scandir(self.path / "home") as entries:
            for entry in entries:
                # The run created these entries, so a symbolic link must not be followed.
                if not entry.is_dir(follow_symlinks=False):
                    os.unlink(entry.path)
                elif entry.name != OUTPUT_FOLDER:
                    remove_tree(Path(entry.path))
        remove_tree(self.path / "code")  # last, because it marks an unfinished clean-up


def remove_tree(path: Path) -> None:
    """Remove a folder that a run has written to, as far as possible. Symbolic links are not followed."""
    with contextlib.suppress(OSError):
        _make_writable(path)
        with _open_folder(path) as folder:
            _empty(folder)
        path.rmdir()


def _empty(top: int) -> None:
    """Remove everything in a folder.

    A run can nest folders without a limit. They are moved up, because recursion or long paths would fail.
    """
    prefix, numbers = secrets.token_hex(8), count()  # a run cannot know the new names

    def remove_entries(folder: int) -> Iterator[str]:
        with os.scandir(folder) as scan:
            entries = list(scan)
        for entry in entries:
            with contextlib.suppress(OSError):
                if not entry.is_dir(follow_symlinks=False):
                    os.unlink(entry.name, dir_fd=folder)
                    continue
                _make_writable(entry.name, folder)
                name = f"{prefix}-{next(numbers)}"
                os.rename(entry.name, name, src_dir_fd=folder, dst_dir_fd=top)
                yield name

    pending = list(remove_entries(top))
    while pending:
        name = pending.pop()
        with contextlib.suppress(OSError):
            with _open_folder(name, top) as folder:
                pending += remove_entries(folder)
            os.rmdir(name, dir_fd=top)


@contextlib.contextmanager
def _open_folder(path: str | Path, parent: int | None = None) -> Iterator[int]:
    folder = os.open(path, OPEN_FOLDER, dir_fd=parent)
    try:
        yield folder
    finally:
        os.close(folder)


def _make_writable(path: str | Path, parent: int | None = None) -> None:
    if os.getuid() != 0:  # root can change any folder
        os.chmod(path, 0o700, dir_fd=parent)


def observe_active(state: JSON) -> Observation:
    """Convert an active run's state, as written by its supervisor, to an observation."""
    phase = PHASES[state["phase"]]
    started_at = None if phase is Phase.STARTING else _to_datetime(state["started_at"])
    return Observation(phase, state.get("reason", ""), state.get("message", ""), started_at=started_at)


def observe_ended(outcome: JSON) -> Observation:
    """Convert the outcome of a run to an observation."""
    times = {
        name: None if outcome[name] is None else _to_datetime(outcome[name]) for name in ("started_at", "finished_at")
    }
    fields = {name: value for name, value in outcome.items() if name not in times}
    return Observation(**{**fields, "phase": Phase(outcome["phase"]), **times})


def _to_datetime(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def list_outputs(folder: Path) -> list[OutputFile]:
    """List the regular files in a folder and its subfolders, sorted by path."""
    try:
        fd = os.open(folder, OPEN_FOLDER)
    except OSError:
        return []
    try:
        # Sorting needs all files, so the walk is limited as well: a run can create millions.
        files = islice(_walk(fd, "", MAX_DEPTH), 10 * MAX_FILES)
        return sorted(files, key=lambda file: file.path)[:MAX_FILES]
    finally:
        os.close(fd)


def open_output(folder: Path, path: str) -> BinaryIO:
    """Open a regular file in a folder. Raises OSError if it does not exist."""
    *folders, name = path.split("/")
    current = os.open(folder, OPEN_FOLDER)
    # Open the path part by part, because O_NOFOLLOW applies only to the last part of a path.
    try:
        for part in folders:
            child = os.open(_check_name(part), OPEN_FOLDER, dir_fd=current)
            os.close(current)
            current = child
        fd = os.open(_check_name(name), OPEN_FILE, dir_fd=current)
    finally:
        os.close(current)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise FileNotFoundError(path)
    return os.fdopen(fd, "rb")


def _walk(folder: int, prefix: str, max_depth: int) -> Iterator[OutputFile]:
    with os.scandir(folder) as scan:
        entries = [entry for entry in scan if _is_utf8(entry.name)]
    for entry in entries:
        with contextlib.suppress(OSError):  # an active run may remove files during the walk
            status = entry.stat(follow_symlinks=False)
            if stat.S_ISDIR(status.st_mode) and max_depth > 0:
                child = os.open(entry.name, OPEN_FOLDER, dir_fd=folder)
                try:
                    yield from _walk(child, f"{prefix}{entry.name}/", max_depth - 1)
                finally:
                    os.close(child)
            elif stat.S_ISREG(status.st_mode):
                yield OutputFile(prefix + entry.name, status.st_size, datetime.fromtimestamp(status.st_mtime, UTC))


def _check_name(name: str) -> str:
    if name in ("", ".", "..") or "\0" in name or not _is_utf8(name):
        raise FileNotFoundError(name)
    return name


def _is_utf8(name: str) -> bool:
    """Whether a file name is valid UTF-8. File names can contain any bytes; Python reads invalid ones as surrogates."""
    return not any("\ud800" <= letter <= "\udfff" for letter in name)

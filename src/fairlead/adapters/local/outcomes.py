"""Builds the outcome of a run from its exit status, its result files and the reason it was stopped.

Standard library only.
"""

import os
import signal
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairlead.adapters.logs import Masker, read_records
from fairlead.adapters.outcomes import MAX_OUTCOME_BYTES, describe_exit, parse_outcome, read_result

TAIL_BYTES = 1 << 16
MAX_LINE_LENGTH = 300


@dataclass
class ProcessExit:
    """How the process of a run ended."""

    status: int | None = None  # from os.wait()
    reason: str | None = None  # why the supervisor stopped it; None if it exited on its own
    message: str = ""
    start_error: str = ""  # why it could not be started

    @property
    def exit_code(self) -> int | None:
        """The exit code; 128 plus the signal number if a signal killed it, as in a shell."""
        # The run was killed together with init, which could not report the status.
        if self.status is None:
            return 128 + signal.SIGKILL if self.reason is not None else None
        code = os.waitstatus_to_exitcode(self.status)
        return code if code >= 0 else 128 - code

    @property
    def killed(self) -> bool:
        """Whether something other than the supervisor killed it."""
        return self.reason is None and self.exit_code == 128 + signal.SIGKILL


def build_outcome(
    process_exit: ProcessExit, home: Path, log: Path, masker: Masker, *, log_offset: int = 0
) -> dict[str, Any]:
    """Build the outcome: reason, message, exit code, and result or error.

    The message may contain the last line of the log after `log_offset`.
    """
    outcome = _describe(process_exit, home, masker)
    if outcome["reason"] == "ExitCode":
        outcome["message"] = _explain(outcome["exit_code"], outcome["error"], log, log_offset)
    return {**outcome, "message": outcome["message"].replace("\0", "\N{SYMBOL FOR NULL}")}


def read_result_file(file: Path) -> dict[str, Any] | None:
    """Read a small JSON file written by a run; None if there is none. A symbolic link is not followed."""
    try:
        with open(file, "rb", opener=_open_without_links) as content:
            return parse_outcome(content.read(MAX_OUTCOME_BYTES + 1) or b"")  # a named pipe without data returns None
    except OSError:
        return None


def _describe(process_exit: ProcessExit, home: Path, masker: Masker) -> dict[str, Any]:
    code = process_exit.exit_code
    error = read_result_file(home / "error.json")
    if error is not None:
        error = {name: masker.mask(str(value)) for name, value in error.items()}
    common: dict[str, Any] = {
        "exit_code": code,
        "stopped": process_exit.reason == "Stopped",
        "error": error,
        "result": None,
    }
    if process_exit.start_error:
        return {
            **common,
            "phase": "failed",
            "reason": "StartFailed",
            "message": process_exit.start_error,
            "exit_code": None,
        }
    if process_exit.reason is not None:
        return {**common, "phase": "failed", "reason": process_exit.reason, "message": process_exit.message}
    if code is None:
        message = "the run's init process was killed, so its exit status is unknown"
        return {**common, "phase": "failed", "reason": "Lost", "message": message}
    if code == 0:
        result = read_result(read_result_file(home / "result.json"))
        return {**common, "phase": "succeeded", "reason": "", "message": "", "result": result}
    return {**common, "phase": "failed", "reason": "ExitCode", "message": ""}


def _open_without_links(file: str, flags: int) -> int:
    # A run can create anything in its home: opening a named pipe would block, and a link could point to a private file.
    return os.open(file, flags | os.O_NOFOLLOW | os.O_NONBLOCK)


def _explain(code: int, error: dict[str, Any] | None, log: Path, log_offset: int) -> str:
    if error is not None and error.get("message"):
        return f"{error.get('type', 'error')}: {error['message']}"
    description, last_line = describe_exit(code), _last_line(log, log_offset)
    return f"{description}: {last_line}" if last_line else description


def _last_line(log: Path, start: int) -> str:
    """Return the last line of stderr, or of stdout if stderr is empty."""
    # The log can only be read forward, so the whole log is read, but only the last records stay in memory.
    tails: dict[str, deque[bytes]] = {"stdout": deque(maxlen=8), "stderr": deque(maxlen=8)}
    for piece in read_records(log, start, 1 << 62):
        if piece.stream in tails:
            tails[piece.stream].append(piece.data[-TAIL_BYTES:])
    for stream in ("stderr", "stdout"):
        lines = [line for line in b"".join(tails[stream]).decode("utf-8", "replace").splitlines() if line.strip()]
        if lines:
            return lines[-1].strip()[:MAX_LINE_LENGTH]
    return ""

"""How a run ended, in words: from its exit status, from what it left behind, and from why it was ended.

Standard library only.
"""

import os
import signal
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairlead.adapters.exits import describe_exit
from fairlead.adapters.logfiles import read_pieces
from fairlead.adapters.masking import Masker
from fairlead.core.outcomes import LARGEST_LEFT, parse_left, read_result

TAIL_BYTES = 1 << 16
LONGEST_LINE = 300


@dataclass
class ProcessExit:
    """What is known of how a run ended."""

    status: int | None = None  # as wait() tells it
    reason: str | None = None  # why it was ended, where it did not end by itself
    message: str = ""
    start_error: str = ""  # what kept it from starting

    @property
    def exit_code(self) -> int | None:
        """Its exit code; that of a shell where a signal ended it."""
        if self.status is None:
            return 128 + signal.SIGKILL if self.reason is not None else None
        code = os.waitstatus_to_exitcode(self.status)
        return code if code >= 0 else 128 - code

    @property
    def killed(self) -> bool:
        """Whether it was killed, and nobody here did it."""
        return self.reason is None and self.exit_code == 128 + signal.SIGKILL


def build_outcome(ending: ProcessExit, home: Path, log: Path, masker: Masker, *, log_from: int = 0) -> dict[str, Any]:
    """What came of a run: reason, message, exit code, and what it returned or how it failed.

    What it wrote is looked for from a cursor of its log on.
    """
    told = _describe(ending, home, masker)
    if told["reason"] == "ExitCode":
        told["message"] = _explain(told["exit_code"], told["error"], log, log_from)
    return {**told, "message": told["message"].replace("\0", "\N{SYMBOL FOR NULL}")}


def _describe(ending: ProcessExit, home: Path, masker: Masker) -> dict[str, Any]:
    code = ending.exit_code
    error = read_result_file(home / "error.json")
    if error is not None:
        error = {name: masker.mask(str(value)) for name, value in error.items()}
    told: dict[str, Any] = {"exit_code": code, "stopped": ending.reason == "Stopped", "error": error, "result": None}
    if ending.start_error:
        return {**told, "phase": "failed", "reason": "StartFailed", "message": ending.start_error, "exit_code": None}
    if ending.reason is not None:
        return {**told, "phase": "failed", "reason": ending.reason, "message": ending.message}
    if code is None:
        message = "the process next to the run, which was to tell how it ended, was killed"
        return {**told, "phase": "failed", "reason": "Lost", "message": message}
    if code == 0:
        result = read_result(read_result_file(home / "result.json"))
        return {**told, "phase": "succeeded", "reason": "", "message": "", "result": result}
    return {**told, "phase": "failed", "reason": "ExitCode", "message": ""}


def read_result_file(file: Path) -> dict[str, Any] | None:
    """A small JSON file that a run left; None where there is none. A link is not followed: it may lead anywhere."""
    try:
        with open(file, "rb", opener=_open_plain) as content:
            return parse_left(content.read(LARGEST_LEFT + 1) or b"")  # nothing: a pipe that says nothing
    except OSError:
        return None


def _open_plain(file: str, flags: int) -> int:
    return os.open(file, flags | os.O_NOFOLLOW | os.O_NONBLOCK)


def _explain(code: int, error: dict[str, Any] | None, log: Path, log_from: int) -> str:
    if error is not None and error.get("message"):
        return f"{error.get('type', 'error')}: {error['message']}"
    ended, last = describe_exit(code), _last_line(log, log_from)
    return f"{ended}: {last}" if last else ended


def _last_line(log: Path, start: int) -> str:
    """The last line that the run wrote, errors before other output."""
    tails: dict[str, deque[bytes]] = {"stdout": deque(maxlen=8), "stderr": deque(maxlen=8)}
    for piece in read_pieces(log, start, 1 << 62):
        if piece.stream in tails:
            tails[piece.stream].append(piece.data[-TAIL_BYTES:])
    for stream in ("stderr", "stdout"):
        lines = [line for line in b"".join(tails[stream]).decode("utf-8", "replace").splitlines() if line.strip()]
        if lines:
            return lines[-1].strip()[:LONGEST_LINE]
    return ""

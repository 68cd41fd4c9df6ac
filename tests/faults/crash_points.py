"""Servers that crash at a line: any line of any function in the code that reconciles runs."""

import atexit
import inspect
import json
import os
import signal
import sys
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import fairlead

PACKAGE = Path(fairlead.__file__).parent
# The controller's reconcile step, and the local executor modules that it calls.
STEP_FILES = ("controllers/*.py", "adapters/local/executor.py", "adapters/local/allocation.py")
CRASH_AT, COUNT_FILE = "CRASH_AT", "COUNT_FILE"  # server environment variables


@dataclass(frozen=True, order=True)
class Point:
    """A line in a function."""

    file: str
    line: int
    function: str

    def variables(self, times: int = 1) -> dict[str, str]:
        """The environment variable for a server that crashes at the nth execution of this line."""
        return {CRASH_AT: f"{self.file}:{self.line}:{times}"}


def list_points() -> list[Point]:
    """Every line in the reconcile step."""
    files = [file for pattern in STEP_FILES for file in sorted(PACKAGE.glob(pattern))]
    points = {(point.file, point.line): point for file in files for point in _list_lines(file)}
    return sorted(points.values())


def install(variables: Mapping[str, str]) -> None:
    """Make this process crash at a line or count how many times each line is executed, if so configured."""
    if CRASH_AT in variables:
        file, line, times = variables[CRASH_AT].split(":")
        _trace(_Crasher(str(PACKAGE / file), int(line), int(times)))
    elif COUNT_FILE in variables:
        _trace(_LineCounter(Path(variables[COUNT_FILE])))


def read_counts(file: Path) -> dict[Point, int]:
    """How many times each line was executed, as written by a server that has ended."""
    counts = {(name, line): times for name, line, times in json.loads(file.read_text())}
    return {point: counts[point.file, point.line] for point in list_points() if (point.file, point.line) in counts}


class _Crasher:
    """Kills this process at a line."""

    def __init__(self, file: str, line: int, remaining: int) -> None:
        self.file, self.line, self.remaining = file, line, remaining

    def enter(self, frame: FrameType, _event: str, _arg: Any) -> Any:
        return self.step if frame.f_code.co_filename == self.file else None

    def step(self, frame: FrameType, event: str, _arg: Any) -> Any:
        if event == "line" and frame.f_lineno == self.line:
            self.remaining -= 1
            if not self.remaining:
                os.kill(os.getpid(), signal.SIGKILL)
        return self.step


class _LineCounter:
    """Counts executed lines, and writes the counts when the process exits."""

    def __init__(self, file: Path) -> None:
        self.files = {str(PACKAGE / point.file): point.file for point in list_points()}
        self.times: Counter[tuple[str, int]] = Counter()
        atexit.register(
            lambda: file.write_text(json.dumps([[*line_key, times] for line_key, times in self.times.items()]))
        )

    def enter(self, frame: FrameType, _event: str, _arg: Any) -> Any:
        return self.step if frame.f_code.co_filename in self.files else None

    def step(self, frame: FrameType, event: str, _arg: Any) -> Any:
        if event == "line":
            self.times[self.files[frame.f_code.co_filename], frame.f_lineno] += 1
        return self.step


def _trace(tracer: _Crasher | _LineCounter) -> None:
    threading.settrace(tracer.enter)
    sys.settrace(tracer.enter)


def _list_lines(file: Path) -> Iterator[Point]:
    name = str(file.relative_to(PACKAGE))
    for code in _list_functions(compile(file.read_text("utf-8"), file, "exec")):
        # The first line is the definition. A crash there has no effect on the step.
        lines = {line for _, _, line in code.co_lines() if line is not None and line > code.co_firstlineno}
        yield from (Point(name, line, code.co_qualname) for line in lines)


def _list_functions(code: CodeType) -> Iterator[CodeType]:
    if code.co_flags & inspect.CO_OPTIMIZED:  # excludes class and module bodies
        yield code
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _list_functions(inner)

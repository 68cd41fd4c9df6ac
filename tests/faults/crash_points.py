"""Lines at which a server is killed, and servers that are: of all that looks after runs, each line of each function."""

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
# The controller's step, and what it calls on this machine.
STEP = ("controllers/*.py", "adapters/local/executors.py", "adapters/local/allocation.py")
DIE_AT, KEEP_COUNT = "DIE_AT", "KEEP_COUNT"  # variables of a server


@dataclass(frozen=True, order=True)
class Point:
    """A line of a function."""

    file: str
    line: int
    function: str

    def at(self, times: int = 1) -> dict[str, str]:
        """The variable of a server that is killed when it comes to this line so often."""
        return {DIE_AT: f"{self.file}:{self.line}:{times}"}


def list_points() -> list[Point]:
    """Every line of the step."""
    files = [file for pattern in STEP for file in sorted(PACKAGE.glob(pattern))]
    points = {(point.file, point.line): point for file in files for point in _list_lines(file)}
    return sorted(points.values())


def install(variables: Mapping[str, str]) -> None:
    """Make this process one that dies at a line, or one that counts how often it comes to each of them."""
    if DIE_AT in variables:
        file, line, times = variables[DIE_AT].split(":")
        _trace(_Death(str(PACKAGE / file), int(line), int(times)))
    elif KEEP_COUNT in variables:
        _trace(_Count(Path(variables[KEEP_COUNT])))


def read_counts(file: Path) -> dict[Point, int]:
    """How often a server came to each line, as it wrote when it ended."""
    counts = {(name, line): times for name, line, times in json.loads(file.read_text())}
    return {point: counts[point.file, point.line] for point in list_points() if (point.file, point.line) in counts}


class _Death:
    """Dies at a line."""

    def __init__(self, file: str, line: int, left: int) -> None:
        self.file, self.line, self.left = file, line, left

    def enter(self, frame: FrameType, _event: str, _arg: Any) -> Any:
        return self.step if frame.f_code.co_filename == self.file else None

    def step(self, frame: FrameType, event: str, _arg: Any) -> Any:
        if event == "line" and frame.f_lineno == self.line:
            self.left -= 1
            if not self.left:
                os.kill(os.getpid(), signal.SIGKILL)
        return self.step


class _Count:
    """Counts lines, and writes that down at the end."""

    def __init__(self, file: Path) -> None:
        self.files = {str(PACKAGE / point.file): point.file for point in list_points()}
        self.times: Counter[tuple[str, int]] = Counter()
        atexit.register(lambda: file.write_text(json.dumps([[*at, times] for at, times in self.times.items()])))

    def enter(self, frame: FrameType, _event: str, _arg: Any) -> Any:
        return self.step if frame.f_code.co_filename in self.files else None

    def step(self, frame: FrameType, event: str, _arg: Any) -> Any:
        if event == "line":
            self.times[self.files[frame.f_code.co_filename], frame.f_lineno] += 1
        return self.step


def _trace(tracer: _Death | _Count) -> None:
    threading.settrace(tracer.enter)
    sys.settrace(tracer.enter)


def _list_lines(file: Path) -> Iterator[Point]:
    name = str(file.relative_to(PACKAGE))
    for code in _list_functions(compile(file.read_text("utf-8"), file, "exec")):
        # The first line is that of its name, at which nothing has begun yet.
        lines = {line for _, _, line in code.co_lines() if line is not None and line > code.co_firstlineno}
        yield from (Point(name, line, code.co_qualname) for line in lines)


def _list_functions(code: CodeType) -> Iterator[CodeType]:
    if code.co_flags & inspect.CO_OPTIMIZED:  # and not the body of a class or of a module
        yield code
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _list_functions(inner)

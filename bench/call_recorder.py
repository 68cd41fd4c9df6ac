"""Runs a module and records the calls between Fairlead's functions in the file `calls` next to this file.

`bench.run_path` copies this file to a temporary folder, because a supervisor gets neither variables nor arguments that
could name the file. Usage: python call_recorder.py MODULE ARGUMENT...
"""

import os
import runpy
import signal
import sys
import threading
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

HERE = Path(__file__).resolve().parent
PYTHON = HERE / "python"  # starts this recorder instead of a module: see `bench.run_path`

_seen: set[tuple[CodeType | None, CodeType]] = set()
_file = os.open(HERE / "calls", os.O_WRONLY | os.O_CREAT | os.O_APPEND)


def record(frame: FrameType, event: str, _: Any) -> None:
    """Profile function: write each pair of caller and callee once, immediately, because forks end without notice."""
    if event != "call" or not _is_ours(frame):
        return
    caller = frame.f_back
    while caller is not None and not _is_ours(caller):  # calls through libraries count as direct calls
        caller = caller.f_back
    pair = (caller.f_code if caller else None, frame.f_code)
    if pair not in _seen:
        _seen.add(pair)
        os.write(_file, f"{_describe(caller) if caller else '-'} {_describe(frame)}\n".encode())


def forget() -> None:
    """Record all calls again."""
    _seen.clear()


def _is_ours(frame: FrameType) -> bool:
    # Methods that dataclasses generate have no file.
    return _module_of(frame).startswith("fairlead") and not frame.f_code.co_filename.startswith("<")


def _module_of(frame: FrameType) -> str:
    spec = frame.f_globals.get("__spec__")  # the name of a module that is executed with -m is __main__
    return spec.name if spec is not None else str(frame.f_globals.get("__name__"))


def _describe(frame: FrameType) -> str:
    return f"{_module_of(frame)}:{frame.f_code.co_qualname}"


if __name__ == "__main__":
    signal.signal(signal.SIGUSR1, lambda *_: forget())
    sys.executable = str(PYTHON)
    sys.argv = sys.argv[1:]
    threading.setprofile(record)
    sys.setprofile(record)
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)

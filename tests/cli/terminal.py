"""Runs the real CLI in this process, and captures stdout and stderr."""

import contextlib
import io
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fairlead.cli


@dataclass(frozen=True)
class CommandResult:
    """The exit code and output of a command."""

    code: int
    out: str
    err: str


@dataclass(frozen=True)
class Terminal:
    """A terminal in a folder."""

    folder: Path

    def __call__(self, *args: str) -> CommandResult:
        """Run a command, and return its exit code and output."""
        return run(self.folder, *args)

    def succeed(self, *args: str) -> str:
        """Run a command that must succeed without output to stderr, and return stdout."""
        result = self(*args)
        assert (result.code, result.err) == (0, ""), result
        return result.out

    def read(self, *args: str) -> Any:
        """Run a command with --json, and return the data."""
        return json.loads(self.succeed(*args, "--json"))

    def fail(self, *args: str) -> str:
        """Run a command that must fail without output to stdout, and return stderr."""
        result = self(*args)
        assert (result.code, result.out) == (1, ""), result
        return result.err


def run(folder: Path, *args: str) -> CommandResult:
    """Run `fairlead` with arguments in a folder."""
    out, err, code = io.StringIO(), io.StringIO(), 0
    with contextlib.chdir(folder), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = fairlead.cli.run(args)
        except SystemExit as error:
            code = int(error.code or 0)
    return CommandResult(code, out.getvalue(), err.getvalue())


def preview(folder: Path, request: str, *options: str, files: Mapping[str, str] | None = None) -> CommandResult:
    """Run `fairlead preview` on a request, with additional files in the folder."""
    write(folder, {"request.yaml": request, **(files or {})})
    return run(folder, "preview", "request.yaml", *options)


def write(folder: Path, files: Mapping[str, str]) -> None:
    """Write files to a folder."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")

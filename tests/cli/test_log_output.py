"""Control sequences in logs are removed on a terminal, because they could manipulate it."""

import contextlib
import io
import os
import pty
import sys
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

import fairlead.cli
from fairlead.cli import output
from tests.cli.terminal import Terminal, write

HOSTILE = "clear \x1b[2J title \x1b]0;owned\x07 clipboard \x1b]52;c;Zm9v\x1b\\ red \x1b[31mtext\x1b[0m"
CLEANED = "clear  title  clipboard  red text"


class _Console(io.StringIO):
    def isatty(self) -> bool:
        return True


def _written(monkeypatch: pytest.MonkeyPatch, data: bytes, *, raw: bool = False) -> str:
    console = _Console()
    monkeypatch.setattr(sys, "stdout", console)
    output.write_log(data, to_stderr=False, raw=raw)
    return console.getvalue()


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (HOSTILE, CLEANED),
        ("10%\r20%\tof 5\n", "10%\r20%\tof 5\n"),
        ("\x9b2J\x9d0;owned\x9cafter", "after"),  # the 8-bit forms of CSI and OSC
        ("\x1bc\x1b(0\x1b7after", "after"),
        ("\x1bPq#0\x1b\\after", "after"),
        ("not closed \x1b]0;owned", "not closed 0;owned"),
        ("bell\a back\b\b delete\x7f", "bell back delete"),
        ("exe.\u202egnp\u202c \u2066a\u2069", "exe.gnp a"),  # change the direction of text
        ("größer 数 🙂 שלום\u200f", "größer 数 🙂 שלום\u200f"),
    ],
)
def test_control_sequences_are_removed_on_a_terminal(monkeypatch: pytest.MonkeyPatch, text: str, shown: str) -> None:
    assert _written(monkeypatch, text.encode()) == shown
    assert _written(monkeypatch, text.encode(), raw=True) == text


@given(st.binary(max_size=60) | st.text("\x1b[]0;ABm\\\a\x9b\x9c\x90P", max_size=60).map(str.encode))
def test_no_control_character_reaches_a_terminal(data: bytes) -> None:
    with pytest.MonkeyPatch.context() as monkeypatch:
        shown = _written(monkeypatch, data)
    assert all(letter in "\t\n\r" or ord(letter) >= 32 for letter in shown)
    assert not any(0x7F <= ord(letter) <= 0x9F for letter in shown)


@pytest.mark.parametrize("start", ["\x9d", "\x90", "\x1b]", "\x1b[", "\x9b0"])
def test_unclosed_sequences_are_removed_in_linear_time(monkeypatch: pytest.MonkeyPatch, start: str) -> None:
    started = time.monotonic()
    _written(monkeypatch, (start * 200_000).encode())
    assert time.monotonic() - started < 5  # minutes if each sequence were searched up to the end of the text


def test_runs_logs_on_a_real_terminal(terminal: Terminal) -> None:
    write(terminal.folder, {"hostile.py": f"def main() -> None:\n    print({HOSTILE!r})\n"})
    run = terminal.succeed("run", "hostile.py:main", "--detach").strip()

    def print_on_terminal(*options: str) -> str:
        ours, theirs = pty.openpty()
        with os.fdopen(theirs, "w") as console, contextlib.redirect_stdout(console):
            assert fairlead.cli.run(["runs", "logs", "--follow", run, *options]) == 0
            return os.read(ours, 10_000).decode().replace("\r\n", "\n")

    assert print_on_terminal() == f"{CLEANED}\n"
    assert print_on_terminal("--raw") == f"{HOSTILE}\n"

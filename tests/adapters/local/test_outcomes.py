"""Outcomes of runs: exit codes, messages and results, for any files that a run leaves behind."""

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from fairlead.adapters.local.outcomes import ProcessExit, build_outcome, read_result_file
from fairlead.adapters.logs import LogWriter, Masker
from fairlead.adapters.outcomes import MAX_OUTCOME_BYTES


def exited(code: int) -> int:
    """The status of a process that exited."""
    return code << 8


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """The home folder of a run that has ended."""
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


def describe(
    home: Path, process_exit: ProcessExit, *secrets: str, log: list[tuple[str, bytes]] | None = None
) -> dict[str, Any]:
    """The outcome of a run with a home folder and a log."""
    writer = LogWriter(home.parent / "log")
    for stream, data in log or []:
        writer.write(stream, data, 1)
    writer.close()
    outcome = build_outcome(process_exit, home, home.parent / "log", Masker(secrets))
    json.dumps(outcome)  # stored as JSON
    return outcome


@pytest.mark.parametrize(
    ("status", "code"),
    [(exited(0), 0), (exited(3), 3), (exited(255), 255), (signal.SIGKILL, 137), (signal.SIGSEGV | 0x80, 139)],
)
def test_exit_code_follows_the_shell_convention(status: int, code: int) -> None:
    assert ProcessExit(status=status).exit_code == code


def test_unknown_exit_status_has_an_exit_code_only_if_the_run_was_killed() -> None:
    assert ProcessExit().exit_code is None
    assert ProcessExit(reason="OOMKilled").exit_code == 137


@pytest.mark.parametrize(
    ("process_exit", "killed"),
    [
        (ProcessExit(status=signal.SIGKILL), True),
        (ProcessExit(status=signal.SIGKILL, reason="OOMKilled"), False),
        (ProcessExit(status=exited(1)), False),
        (ProcessExit(), False),
    ],
)
def test_killed_is_set_only_for_signals_from_outside(process_exit: ProcessExit, killed: bool) -> None:
    assert process_exit.killed is killed


def test_exit_code_0_means_success_with_the_result(home: Path) -> None:
    (home / "result.json").write_text('{"kind": "json", "value": [1, 2]}')
    outcome = describe(home, ProcessExit(status=exited(0)))
    assert (outcome["phase"], outcome["exit_code"], outcome["stopped"], outcome["error"]) == (
        "succeeded",
        0,
        False,
        None,
    )
    assert outcome["result"] == {"kind": "json", "value": [1, 2]}


def test_failed_run_has_no_result(home: Path) -> None:
    (home / "result.json").write_text('{"kind": "json", "value": 1}')
    assert describe(home, ProcessExit(status=exited(1)))["result"] is None


def test_failure_message_is_the_python_exception(home: Path) -> None:
    (home / "error.json").write_text(json.dumps({"type": "ValueError", "message": "bad", "traceback": "Traceback ..."}))
    outcome = describe(home, ProcessExit(status=exited(1)), log=[("stderr", b"Traceback\n")])
    assert (outcome["phase"], outcome["reason"], outcome["message"]) == ("failed", "ExitCode", "ValueError: bad")
    assert outcome["error"]["traceback"] == "Traceback ..."


def test_secrets_in_an_error_are_masked(home: Path) -> None:
    error = {"type": "KeyError", "message": "hunter2", "traceback": "line 1: hunter2\nline 2", "args": ["hunter2"]}
    (home / "error.json").write_text(json.dumps(error))
    assert "hunter2" not in json.dumps(describe(home, ProcessExit(status=exited(1)), "hunter2"))


@pytest.mark.parametrize(
    ("status", "log", "message"),
    [
        (exited(3), [], "exited with code 3"),
        (exited(3), [("stdout", b"out\n"), ("stderr", b"first\nlast\n\n")], "exited with code 3: last"),
        (exited(3), [("stdout", b"only out\n"), ("platform", b"ours\n")], "exited with code 3: only out"),
        (exited(3), [("stderr", b"  \n\n"), ("stdout", b"x\n")], "exited with code 3: x"),
        (exited(3), [("stderr", b"torn \xff\xfe\n")], "exited with code 3: torn ��"),
        (exited(3), [("stderr", b"in two "), ("stderr", b"pieces\n")], "exited with code 3: in two pieces"),
        (signal.SIGSEGV, [], "killed by SIGSEGV (exit code 139)"),
        (signal.SIGKILL, [("stderr", b"oops\n")], "killed by SIGKILL (exit code 137): oops"),
        (exited(255), [], "exited with code 255"),
        (exited(128), [], "exited with code 128"),
    ],
)
def test_failure_without_an_exception_shows_the_last_log_line(
    home: Path, status: int, log: list[tuple[str, bytes]], message: str
) -> None:
    outcome = describe(home, ProcessExit(status=status), log=log)
    assert (outcome["reason"], outcome["message"]) == ("ExitCode", message)


def test_long_last_line_is_truncated(home: Path) -> None:
    outcome = describe(home, ProcessExit(status=exited(1)), log=[("stderr", b"x" * 100_000)] * 20)
    assert len(outcome["message"]) < 400


def test_stop_reason_takes_precedence_over_the_exit_status(home: Path) -> None:
    (home / "error.json").write_text('{"type": "KeyboardInterrupt", "message": ""}')
    (home / "result.json").write_text("{}")
    for reason, stopped in (("Stopped", True), ("DeadlineExceeded", False), ("OOMKilled", False)):
        outcome = describe(home, ProcessExit(status=exited(0), reason=reason, message="so it is"))
        assert (outcome["phase"], outcome["reason"], outcome["message"]) == ("failed", reason, "so it is")
        assert (outcome["stopped"], outcome["result"]) == (stopped, None)


def test_failed_start_has_no_exit_code(home: Path) -> None:
    outcome = describe(home, ProcessExit(status=exited(126), start_error="cannot run train: no such file"))
    assert (outcome["reason"], outcome["exit_code"]) == ("StartFailed", None)
    assert outcome["message"] == "cannot run train: no such file"


def test_unknown_exit_status_is_reported_as_lost(home: Path) -> None:
    outcome = describe(home, ProcessExit())
    assert (outcome["phase"], outcome["reason"], outcome["exit_code"]) == ("failed", "Lost", None)


DEEP = '{"a":' * 60_000 + "1" + "}" * 60_000


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"not json",
        b"[1]",
        b'"text"',
        b"null",
        b"\xff\xfe",
        b'{"a": 1',
        b'{"pad": "' + b"x" * MAX_OUTCOME_BYTES + b'"}',
        DEEP.encode(),
        b"9" * 5000,
    ],
)
def test_invalid_result_and_error_files_are_ignored(home: Path, content: bytes) -> None:
    (home / "error.json").write_bytes(content)
    (home / "result.json").write_bytes(content)
    assert read_result_file(home / "error.json") is None
    assert describe(home, ProcessExit(status=exited(0)))["result"] is None
    assert describe(home, ProcessExit(status=exited(1)))["message"] == "exited with code 1"


def test_symlink_pipe_and_folder_are_not_read_as_result_files(home: Path) -> None:
    (home.parent / "private.json").write_text('{"message": "private"}')
    (home / "error.json").symlink_to(home.parent / "private.json")
    os.mkfifo(home / "pipe.json")
    (home / "folder.json").mkdir()
    before = len(os.listdir("/proc/self/fd"))
    for name in ("error.json", "pipe.json", "folder.json", "none.json"):
        assert read_result_file(home / name) is None, name
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize(
    "text", ["caf\udce9", chr(0xD800), "a\0b", "\u2028", "\U0001f98a", "x" * 100_000], ids=lambda text: ascii(text)[:12]
)
def test_any_text_in_an_error_can_be_stored(home: Path, text: str) -> None:
    (home / "error.json").write_text(json.dumps({"type": "Error", "message": text, "traceback": text}))
    outcome = describe(home, ProcessExit(status=exited(1)))
    outcome["message"].encode("utf-8")  # databases reject lone surrogates
    assert "\0" not in outcome["message"]  # PostgreSQL rejects NUL


@pytest.mark.parametrize("value", ["NaN", "Infinity", '"\\ud800"', '"\\u0000"', "1e999", "123456789" * 50])
def test_any_result_can_be_stored(home: Path, value: str) -> None:
    (home / "result.json").write_text(f'{{"kind": "json", "value": {value}}}')
    outcome = describe(home, ProcessExit(status=exited(0)))
    assert outcome["phase"] == "succeeded"
    json.dumps(outcome["result"], allow_nan=False, ensure_ascii=False).encode("utf-8")

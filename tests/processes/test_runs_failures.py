"""User errors are explained in one sentence: by the SDK before submission if possible, otherwise by the run."""

import contextlib
import shutil
from pathlib import Path
from typing import Any

import pytest

from fairlead.errors import NotFound, RequestRejected, RunFailed, Unreadable
from fairlead.sdk.runs import Run
from fairlead.source_code import pack_path
from tests.processes.execution import Platform, find_processes, wait_for_end, wait_for_output

INVALID_CODE = [
    ("def train(): pass", "trian", "HandlerMissing: no function 'trian' in 'main.py'; did you mean 'train'?"),
    ("def train(:\n  pass", "train", "SyntaxError: invalid syntax (main.py, line 1)"),
    ("def train(:\n  pass", None, "SyntaxError: invalid syntax (main.py, line 1)"),
    ("import no_such_thing", None, "ModuleNotFoundError: No module named 'no_such_thing'"),
    ("def f(): return {1, 2}", "f", "ResultNotJSON: the function's result is not JSON: result is a set"),
    ("def f(): return {'a': [object()]}", "f", "result.a[0] is an object"),
    ("def f(): return float('nan')", "f", "result is nan"),
    ("def f(x): return x", "f", "InputsMismatch: the inputs do not match the function: "),
    ("def f(): raise ValueError('no luck')", "f", "ValueError: no luck"),
    ("def f(): raise ValueError('a\\0b \\ud800')", "f", "ValueError: a"),
    ("import sys; sys.exit('no more data')", None, "SystemExit: no more data"),
]


def test_run_whose_folder_is_deleted_fails_with_the_reason(platform: Platform) -> None:
    run = platform.shell("echo up; sleep 60")
    wait_for_output(run, "up")
    while (folder := platform.folder_of(run)).exists():  # the supervisor may add a file during the deletion
        shutil.rmtree(folder, ignore_errors=True)
    ended = wait_for_end(run)
    assert (ended["state"], ended["reason"]) == ("failed", "FolderDeleted")
    assert ended["message"] == "the run's folder was deleted while the run was active, so the run was killed"
    assert find_processes(run.id) == []


@pytest.mark.parametrize(("text", "handler", "message"), INVALID_CODE)
def test_invalid_code_fails_with_a_clear_message(
    platform: Platform, text: str, handler: str | None, message: str
) -> None:
    ended = wait_for_end(submit_unchecked(platform, text, handler))
    assert (ended["state"], ended["reason"], ended["exit_code"]) == ("failed", "ExitCode", 1)
    assert message in ended["message"]


@pytest.mark.parametrize(
    ("text", "message"), [("def train(): pass", "no function 'trian' in "), ("def train(:", "line 1")]
)
def test_sdk_reports_invalid_code_before_submitting(platform: Platform, text: str, message: str) -> None:
    (platform.shared / "wrong.py").write_text(text)
    function = platform.project.function("wrong", source=str(platform.shared / "wrong.py"), handler="trian")
    with pytest.raises(Unreadable, match=message):
        function.run()


def test_result_raises_the_failure_with_its_traceback(platform: Platform) -> None:
    run = platform.python("def f():\n    raise ValueError('no luck')", "f")
    wait_for_end(run)
    with pytest.raises(RunFailed, match="no luck") as raised:
        _ = run.result
    error = raised.value.error
    assert error is not None
    assert "line 2, in f\n    raise ValueError('no luck')" in error["traceback"]


def test_return_value_without_json_form_keeps_the_files(platform: Platform) -> None:
    text = "import os\ndef f():\n    open(os.environ['FAIRLEAD_OUTPUT'] + '/file', 'w').write('x')\n    return object()"
    run = platform.python(text, "f")
    assert wait_for_end(run)["state"] == "failed"
    assert run.read("file") == b"x"


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("echo fine; echo 'no luck' >&2; exit 3", "exited with code 3: no luck"),
        ("echo only this; exit 4", "exited with code 4: only this"),
        ("exit 5", "exited with code 5"),
        ("kill -SEGV $$", "killed by SIGSEGV (exit code 139)"),
        ("printf 'a\\0b\\377c' >&2; exit 6", "exited with code 6: a"),
    ],
)
def test_exit_code_is_reported_with_the_last_line_of_stderr(platform: Platform, command: str, message: str) -> None:
    ended = wait_for_end(platform.shell(command))
    assert (ended["state"], ended["reason"]) == ("failed", "ExitCode")
    assert ended["message"].startswith(message)
    assert "\0" not in ended["message"]


def test_missing_program_is_reported(platform: Platform) -> None:
    ended = wait_for_end(platform.project.function("x", command=["no-such-program", "--help"]).run())
    assert (ended["state"], ended["exit_code"]) == ("failed", 1)
    assert "cannot run 'no-such-program'" in ended["message"]


def test_image_is_rejected_on_the_local_machine(platform: Platform) -> None:
    function = platform.project.function("x", image="registry.example/lab/train:1", command=["true"])
    with pytest.raises(RequestRejected, match="cluster/local cannot run containers"):
        function.run()


@pytest.mark.parametrize(
    ("content", "result"),
    [
        ("[" * 200_000, None),
        ('{"kind": "json", "value": NaN}', None),
        ('{"kind": "json", "value": "\\ud800 \\u0000"}', "? \0"),
        ('{"kind": "nonsense"}', None),
        ('["no", "object"]', None),
        ('{"kind": "json", "value": ' + "9" * 6000 + "}", None),
        ('{"kind": "file", "path": "../../../secret.key", "type": "bytes", "size": 1}', NotFound),
    ],
    ids=["deep", "nan", "invalid-text", "nonsense", "list", "number", "other-folder"],
)
def test_an_invalid_result_file_gives_no_result(platform: Platform, content: str, result: Any) -> None:
    (platform.shared / "result").write_text(content)
    run = platform.shell(f"cp {platform.shared}/result $FAIRLEAD_HOME/result.json")
    assert (wait_for_end(run)["state"], find_processes(run.id)) == ("completed", [])
    response = platform.project.api.get(f"/runs/{run.id}/result")
    assert (response["state"], response["message"]) == ("completed", "completed")
    with pytest.raises(NotFound) if result is NotFound else contextlib.nullcontext():
        assert run.result == result


def test_symlinks_in_place_of_files_of_a_run_are_not_followed(platform: Platform) -> None:
    token = platform.server.data / "token"
    text = f"cd $FAIRLEAD_HOME; ln -s {token} result.json; ln -s {token} error.json; mkfifo output/pipe; exit 3"
    run = platform.shell(text)
    assert wait_for_end(run)["message"].startswith("exited with code 3")
    assert [file["path"] for file in run.files()] == []


def submit_unchecked(platform: Platform, text: str, handler: str | None) -> Run:
    """Submit a handwritten request, without the SDK's checks."""
    folder = Path(platform.shared / "unchecked")
    folder.mkdir(exist_ok=True)
    (folder / "main.py").write_text(text)
    packed = pack_path(folder / "main.py")
    definition: dict[str, Any] = {"name": "invalid", "source": packed.source, "code": packed.digest}
    connection = platform.project.api
    connection.put_bytes(f"/projects/default/code/{packed.digest}", packed.archive)
    function = definition | ({} if handler is None else {"handler": handler})
    return Run(connection, connection.post("/projects/default/runs", {"function": function}))

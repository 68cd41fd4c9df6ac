"""A pod's results and files: in the termination message, or uploaded to the server."""

import json
import os
from pathlib import Path

import pytest

from fairlead.adapters.outcomes import MAX_OUTCOME_BYTES
from fairlead.in_container import sidecar
from fairlead.services.runs import executions
from tests.bootstrap.containers import execute, make_container, value_of
from tests.bootstrap.pods import TOKEN, Server, closed_url, envs_of, limit, make_pod, message_of, run_server

LOADED = "import sys\nloaded = list(sys.modules)\ndef main():\n    return [len(loaded), 'http.client' in loaded]\n"
WRITE_FILES = """
import os, pathlib
out = pathlib.Path(os.environ["FAIRLEAD_OUTPUT"])
def leave(**files):
    for name, text in files.items():
        (out / name).write_text(text)
"""


def run(folder: Path, code: str, server: Server | str | None = None, **envs: str) -> tuple[int, str, str]:
    """Call `main` of a file with this code, in a pod."""
    bootstrap = make_pod(folder, {"a.py": code}, "a.py", handler="main")
    if isinstance(server, str):
        limit(bootstrap, GIVE_UP_SECONDS=1)
    return execute(folder, bootstrap, **envs_of(folder, server), **envs)


def test_a_small_result_is_in_the_termination_message(tmp_path: Path) -> None:
    assert run(tmp_path, "def main():\n    return {'é': 1}\n", closed_url()) == (0, "", "")
    assert message_of(tmp_path) == {"result": {"kind": "json", "value": {"é": 1}}}


@pytest.mark.parametrize("size", [3_900, 3_970])
def test_results_up_to_the_size_limit_are_in_the_message(tmp_path: Path, size: int) -> None:
    with run_server() as server:
        assert run(tmp_path, f"def main():\n    return 'x' * {size}\n", server) == (0, "", "")
    message = message_of(tmp_path)
    assert ("result" in message) == (size == 3_900)
    assert list(server.uploads) == ([] if size == 3_900 else ["result.json"])


def test_a_large_result_is_uploaded(tmp_path: Path) -> None:
    with run_server() as server:
        assert run(tmp_path, "def main():\n    return 'é' * 9000\n", server) == (0, "", "")
    assert json.loads(server.uploads["result.json"]) == {"kind": "json", "value": "é" * 9000}
    assert message_of(tmp_path) == {"handed": "result.json"}
    assert server.tokens == {f"Bearer {TOKEN}"}


@pytest.mark.parametrize(("returned", "size"), [("'x' * 9000", "9029"), ("b'x' * 9000", "9000"), ("b'x'", "1")])
def test_a_result_that_cannot_be_uploaded_fails_the_run(tmp_path: Path, returned: str, size: str) -> None:
    code, _, err = run(tmp_path, f"def main():\n    return {returned}\n")
    assert code == 1
    error = message_of(tmp_path)["error"]
    assert (error["type"], error["traceback"]) == ("ResultLost", "")
    unreachable, hint = "pods in this cluster cannot reach the server", sidecar.HINT
    reason = f", but {unreachable}, so the limit is 4000 bytes; {hint}"
    if returned.startswith("b"):
        reason = f" and was not uploaded: {unreachable}: {hint}"
    assert error["message"] == f"the function's result is {size} bytes long{reason}"
    assert error["message"] in err
    assert "result" not in message_of(tmp_path)


def test_bytes_are_uploaded_as_a_file(tmp_path: Path) -> None:
    with run_server() as server:
        assert run(tmp_path, "def main():\n    return bytes(range(256)) * 4\n", server) == (0, "", "")
    assert server.uploads == {"output/result.bin": bytes(range(256)) * 4}
    assert message_of(tmp_path)["result"] == {"kind": "file", "path": "result.bin", "type": "bytes", "size": 1024}


def test_a_result_rejected_by_the_server_fails_the_run(tmp_path: Path) -> None:
    with run_server() as server:
        server.problems["result.json"] = {"status": 422, "detail": "too odd", "hint": "be plain"}
        code, _, err = run(tmp_path, "def main():\n    return 'x' * 9000\n", server)
    error = message_of(tmp_path)["error"]
    assert (code, error["type"]) == (1, "ResultLost")
    assert error["message"].endswith(
        "bytes long and was not uploaded: " + server.url + " responded with 422: too odd; be plain"
    )
    assert error["message"] in err


def test_files_are_uploaded_before_the_result(tmp_path: Path) -> None:
    code = f"{WRITE_FILES}\ndef main():\n    (out / 'sub' / 'é b').mkdir(parents=True)\n"
    code += "    leave(**{'b.txt': 'B', 'a%2F?.txt': 'A', 'sub/é b/c': '', 'sub/d#': 'D'})\n"
    code += "    os.symlink('/etc/passwd', out / 'link')\n    os.mkfifo(out / 'pipe')\n    return 'x' * 5000\n"
    with run_server() as server:
        assert run(tmp_path, code, server) == (0, "", "")
    files = {"output/a%2F?.txt": b"A", "output/b.txt": b"B", "output/sub/d#": b"D", "output/sub/é b/c": b""}
    assert {path: body for path, body in server.uploads.items() if path != "result.json"} == files
    assert server.requests[-1] == ("PUT", "result.json")
    assert message_of(tmp_path) == {"handed": "result.json"}


def test_files_of_a_failed_function_are_uploaded(tmp_path: Path) -> None:
    with run_server() as server:
        code, _, err = run(
            tmp_path, f"{WRITE_FILES}\ndef main():\n    leave(a='A')\n    raise ValueError('too hot')\n", server
        )
    assert (code, server.uploads) == (1, {"output/a": b"A"})
    error = message_of(tmp_path)["error"]
    assert (error["type"], error["message"]) == ("ValueError", "too hot")
    assert error["traceback"] in err


@pytest.mark.parametrize("has_server", [True, False])
def test_a_long_error_is_truncated_in_the_message_and_uploaded_completely(tmp_path: Path, has_server: bool) -> None:
    code = "def f(n):\n    return f(n - 1) if n else g()\ndef g():\n    raise ValueError('é' * 3000)\n"
    code += "def main():\n    exec('\\n' * 5 + 'f(3)' + '  # ' + 'x' * 9000)\n"
    with run_server() as server:
        assert run(tmp_path, code, server if has_server else None)[0] == 1
    message = message_of(tmp_path)
    assert message["error"]["type"] == "ValueError"
    assert message["error"]["message"].startswith("é" * 1900)
    assert message.get("handed") == ("error.json" if has_server else None)
    if has_server:
        complete = json.loads(server.uploads["error.json"])
        assert complete["message"] == "é" * 3000
        assert complete["traceback"].endswith(message["error"]["traceback"])


def test_the_end_of_a_long_traceback_is_in_the_message(tmp_path: Path) -> None:
    code = "def f(n):\n    return f(n - 1) if n % 2 else g(n)\ndef g(n):\n    if not n: raise ValueError('bottom')\n"
    assert run(tmp_path, code + "    return f(n - 1)\ndef main():\n    f(120)\n")[0] == 1
    error = message_of(tmp_path)["error"]
    assert error["message"] == "bottom"
    assert error["traceback"].endswith("ValueError: bottom\n")
    assert len(error["traceback"]) > 3000


def test_a_message_of_the_function_is_preserved_if_there_is_no_other(tmp_path: Path) -> None:
    code = "import os\nopen(os.environ['FAIRLEAD_TERMINATION'], 'w').write('\"mine\"')\n"
    assert execute(tmp_path, make_pod(tmp_path, {"a.py": code}, "a.py"), **envs_of(tmp_path)) == (0, "", "")
    assert message_of(tmp_path) == "mine"


def test_the_exit_message_of_a_script_is_reported(tmp_path: Path) -> None:
    bootstrap = make_pod(tmp_path, {"a.py": "import sys\nsys.exit('no data')\n"}, "a.py")
    assert execute(tmp_path, bootstrap, **envs_of(tmp_path))[0] == 1
    assert message_of(tmp_path)["error"]["message"] == "no data"


def test_results_of_an_earlier_run_are_not_uploaded(tmp_path: Path) -> None:
    bootstrap = make_pod(tmp_path, {"a.py": "print('ran')\n"}, "a.py")
    (tmp_path / "home").mkdir()
    for name in ("result.json", "error.json"):
        (tmp_path / "home" / name).write_text('{"kind": "json", "value": 1}')
    assert execute(tmp_path, bootstrap, **envs_of(tmp_path)) == (0, "ran\n", "")
    assert message_of(tmp_path) is None


@pytest.mark.parametrize("content", ["[1]", "{", "null", "9" * 6000, '"' + "x" * 600_000 + '"'])
def test_invalid_result_files_are_ignored(tmp_path: Path, content: str) -> None:
    code = f"import os\nopen(os.environ['FAIRLEAD_HOME'] + '/result.json', 'w').write({content!r})\n"
    assert execute(tmp_path, make_pod(tmp_path, {"a.py": code}, "a.py"), **envs_of(tmp_path)) == (0, "", "")
    assert message_of(tmp_path) is None


FORGED = ['{"kind": "file", "path": ["a"], "size": "x"}', '{"kind": "file"}', '{"kind": ["json"], "value": NaN}']


@pytest.mark.parametrize("content", FORGED)
def test_forged_result_files_do_no_harm(tmp_path: Path, content: str) -> None:
    code = f"import os\nopen(os.environ['FAIRLEAD_HOME'] + '/result.json', 'w').write({content!r})\n"
    assert execute(tmp_path, make_pod(tmp_path, {"a.py": code}, "a.py"), **envs_of(tmp_path)) == (0, "", "")
    assert "result" in message_of(tmp_path)


def test_deeply_nested_files_are_uploaded(tmp_path: Path) -> None:
    code = f"{WRITE_FILES}\nfor _ in range(300):\n    os.chdir(out)\n    out = pathlib.Path('a')\n    out.mkdir()\n"
    with run_server() as server:
        result = run(tmp_path, f"{code}(out / 'b').write_text('B')\ndef main():\n    pass\n", server)
    assert result == (0, "", "")
    assert server.uploads == {"output/" + "a/" * 300 + "b": b"B"}


# Files that are lost


def test_lost_files_are_reported_and_the_run_completes(tmp_path: Path) -> None:
    code, _, err = run(tmp_path, f"{WRITE_FILES}\ndef main():\n    leave(a='A', b='B')\n    return 7\n")
    reason = f"{sidecar.UNREACHABLE}: {sidecar.HINT}"
    assert (code, err) == (0, f"2 output files were not uploaded: {reason}\n")
    message = message_of(tmp_path)
    assert message == {"lost": {"files": 2, "why": reason}, "result": {"kind": "json", "value": 7}}


@pytest.mark.parametrize(
    ("limits", "lost", "reason"),
    [
        ({"MAX_FILE_BYTES": 20}, 1, "b is 30 bytes long, but the limit is 20 per file and 268,435,456 per run"),
        ({"MAX_OUTPUT_BYTES": 25}, 1, "b is 30 bytes long, but the limit is 67,108,864 per file and 25 per run"),
        ({"MAX_OUTPUT_BYTES": 15}, 2, "b is 30 bytes long, but the limit is 67,108,864 per file and 15 per run"),
        ({"MAX_OUTPUT_FILES": 1}, 2, "a run can have at most 1 output files: pack them into one, or use a volume"),
    ],
)
def test_files_beyond_the_limits_are_not_sent(tmp_path: Path, limits: dict[str, int], lost: int, reason: str) -> None:
    code = f"{WRITE_FILES}\ndef main():\n    leave(a='A' * 10, b='B' * 30, c='C' * 10)\n"
    bootstrap = make_pod(tmp_path, {"a.py": code}, "a.py", handler="main")
    limit(bootstrap, **limits)
    with run_server() as server:
        exit_code, _, err = execute(tmp_path, bootstrap, **envs_of(tmp_path, server))
    assert (exit_code, len(server.requests)) == (0, 3 - lost)
    assert reason in err
    assert message_of(tmp_path)["lost"]["files"] == lost
    assert reason in message_of(tmp_path)["lost"]["why"]


def test_a_rejected_file_does_not_affect_others(tmp_path: Path) -> None:
    violation = {"path": "body", "message": "has handed over too much", "hint": "write it to a volume"}
    with run_server() as server:
        server.problems["output/a"] = {"status": 422, "detail": "1 rule is broken", "violations": [violation]}
        assert run(tmp_path, f"{WRITE_FILES}\ndef main():\n    leave(a='A', b='B')\n", server)[0] == 0
    assert server.uploads == {"output/b": b"B"}
    reason = f"{server.url} responded with 422: has handed over too much; write it to a volume"
    assert message_of(tmp_path)["lost"] == {"files": 1, "why": reason}


def test_a_file_with_an_invalid_name_does_not_affect_others(tmp_path: Path) -> None:
    code = (
        f"{WRITE_FILES}\nimport sys\ndef main():\n    leave(a='A')\n    (out / os.fsdecode(b'\\xff')).write_text('B')\n"
    )
    with run_server() as server:
        exit_code, _, err = run(tmp_path, code, server)
    assert (exit_code, server.uploads) == (0, {"output/a": b"A"})
    assert err == "1 output file was not uploaded: the file name 'output/\\udcff' is not valid UTF-8\n"


@pytest.mark.parametrize("status", [401, 404])
def test_an_invalid_token_ends_the_upload_immediately(tmp_path: Path, status: int) -> None:
    with run_server() as server:
        server.statuses = [status] * 10
        assert run(tmp_path, f"{WRITE_FILES}\ndef main():\n    leave(a='A', b='B', c='C')\n", server)[0] == 0
    assert len(server.requests) == 1
    assert message_of(tmp_path)["lost"]["files"] == 3


def test_uploads_survive_a_short_outage(tmp_path: Path) -> None:
    with run_server() as server:
        server.statuses = [503, 0, 200, 409]
        assert run(
            tmp_path, f"{WRITE_FILES}\ndef main():\n    leave(a='A' * 10**6, b='B')\n    return 'x' * 5000\n", server
        ) == (0, "", "")
    assert [path for _, path in server.requests] == ["output/a"] * 3 + ["output/b"] * 2 + ["result.json"]
    assert {path: len(body) for path, body in server.uploads.items() if path != "result.json"} == {
        "output/a": 10**6,
        "output/b": 1,
    }


def test_an_unreachable_server_is_waited_for_once(tmp_path: Path) -> None:
    code = f"{WRITE_FILES}\ndef main():\n    leave(a='A', b='B', c='C')\n    return 1\n"
    url = closed_url()
    exit_code, _, err = run(tmp_path, code, url)
    assert (exit_code, err) == (
        0,
        f"3 output files were not uploaded: no response from {url} for 1 seconds: Connection refused\n",
    )
    assert message_of(tmp_path)["result"]["value"] == 1


def test_redirects_are_reported(tmp_path: Path) -> None:
    with run_server() as server:
        server.statuses = [308]
        _, _, err = run(tmp_path, f"{WRITE_FILES}\ndef main():\n    leave(a='A')\n", server)
    assert err == f"1 output file was not uploaded: {server.url} redirects to https://elsewhere.test/\n"


def test_the_server_url_may_have_a_path(tmp_path: Path) -> None:
    with run_server("/fairlead") as server:
        assert run(tmp_path, f"{WRITE_FILES}\ndef main():\n    leave(a='A')\n", f"{server.url}/") == (0, "", "")
    assert server.uploads == {"output/a": b"A"}


# Outside pods, and overhead


def test_without_a_server_and_message_there_is_no_extra_process(tmp_path: Path) -> None:
    bootstrap = make_pod(
        tmp_path, {"a.py": "import os\ndef main():\n    return os.getppid()\n"}, "a.py", handler="main"
    )
    assert execute(tmp_path, bootstrap, FAIRLEAD_TERMINATION=str(tmp_path / "nowhere")) == (0, "", "")
    assert value_of(tmp_path) == os.getpid(), "no process in between"


def test_a_container_without_the_sidecar_uploads_nothing(tmp_path: Path) -> None:
    bootstrap = make_container(
        tmp_path, {"a.py": "import os\ndef main():\n    return os.getppid()\n"}, "a.py", handler="main"
    )
    (tmp_path / "message").touch()
    assert execute(tmp_path, bootstrap, **envs_of(tmp_path, closed_url())) == (0, "", "")
    assert value_of(tmp_path) == os.getpid()
    assert message_of(tmp_path) is None


def test_the_function_process_does_not_load_the_http_client(tmp_path: Path) -> None:
    with run_server() as server:
        run(tmp_path, LOADED, server)
    assert message_of(tmp_path)["result"]["value"][1] is False


def test_the_limits_equal_those_of_the_server() -> None:
    assert (sidecar.MAX_FILE_BYTES, sidecar.MAX_OUTPUT_BYTES) == (
        executions.MAX_FILE_BYTES,
        executions.MAX_OUTPUT_BYTES,
    )
    assert (sidecar.MAX_OUTPUT_FILES, sidecar.MAX_OUTCOME_BYTES) == (
        executions.MAX_OUTPUT_FILES,
        MAX_OUTCOME_BYTES,
    )

"""Results and files of a pod: in the termination message, or uploaded to the server."""

import json
import os
from pathlib import Path

import pytest

from fairlead.core import outcomes
from fairlead.in_container import sidecar
from fairlead.services import run_uploads
from tests.bootstrap.containers import execute, make_container, value_of
from tests.bootstrap.pods import TOKEN, Server, envs_of, limit, make_pod, message_of, serving, silent_url

LOADED = "import sys\nloaded = list(sys.modules)\ndef main():\n    return [len(loaded), 'http.client' in loaded]\n"
LEAVE = """
import os, pathlib
out = pathlib.Path(os.environ["FAIRLEAD_OUTPUT"])
def leave(**files):
    for name, text in files.items():
        (out / name).write_text(text)
"""


def run(folder: Path, code: str, server: Server | str | None = None, **more: str) -> tuple[int, str, str]:
    """Call `main` of a file with this code, in a pod."""
    bootstrap = make_pod(folder, {"a.py": code}, "a.py", handler="main")
    if isinstance(server, str):
        limit(bootstrap, GIVE_UP_SECONDS=1)
    return execute(folder, bootstrap, **envs_of(folder, server), **more)


def test_a_small_result_is_the_message_and_needs_no_network(tmp_path: Path) -> None:
    assert run(tmp_path, "def main():\n    return {'é': 1}\n", silent_url()) == (0, "", "")
    assert message_of(tmp_path) == {"result": {"kind": "json", "value": {"é": 1}}}


@pytest.mark.parametrize("size", [3_900, 3_970])
def test_what_fits_in_the_message_to_the_byte_is_there(tmp_path: Path, size: int) -> None:
    with serving() as server:
        assert run(tmp_path, f"def main():\n    return 'x' * {size}\n", server) == (0, "", "")
    told = message_of(tmp_path)
    assert ("result" in told) == (size == 3_900)
    assert list(server.kept) == ([] if size == 3_900 else ["result.json"])


def test_a_larger_result_is_put_to_the_server(tmp_path: Path) -> None:
    with serving() as server:
        assert run(tmp_path, "def main():\n    return 'é' * 9000\n", server) == (0, "", "")
    assert json.loads(server.kept["result.json"]) == {"kind": "json", "value": "é" * 9000}
    assert message_of(tmp_path) == {"handed": "result.json"}
    assert server.tokens == {f"Bearer {TOKEN}"}


@pytest.mark.parametrize(("returned", "size"), [("'x' * 9000", "9029"), ("b'x' * 9000", "9000"), ("b'x'", "1")])
def test_a_result_that_cannot_get_back_fails_the_run(tmp_path: Path, returned: str, size: str) -> None:
    code, _, err = run(tmp_path, f"def main():\n    return {returned}\n")
    assert code == 1
    told = message_of(tmp_path)["error"]
    assert (told["type"], told["traceback"]) == ("ResultLost", "")
    unreachable, hint = "pods of this cluster cannot reach the server", sidecar.HINT
    why = f", but {unreachable}, so the limit is 4000 bytes; {hint}"
    if returned.startswith("b"):
        why = f" and was not uploaded: {unreachable}: {hint}"
    assert told["message"] == f"the result of the function has {size} bytes{why}"
    assert told["message"] in err
    assert "result" not in message_of(tmp_path)


def test_bytes_are_a_file_which_is_there_before_the_message(tmp_path: Path) -> None:
    with serving() as server:
        assert run(tmp_path, "def main():\n    return bytes(range(256)) * 4\n", server) == (0, "", "")
    assert server.kept == {"output/result.bin": bytes(range(256)) * 4}
    assert message_of(tmp_path)["result"] == {"kind": "file", "path": "result.bin", "type": "bytes", "size": 1024}


def test_a_result_that_the_server_does_not_take_fails_the_run(tmp_path: Path) -> None:
    with serving() as server:
        server.refused["result.json"] = {"status": 422, "detail": "too odd", "hint": "be plain"}
        code, _, err = run(tmp_path, "def main():\n    return 'x' * 9000\n", server)
    told = message_of(tmp_path)["error"]
    assert (code, told["type"]) == (1, "ResultLost")
    assert told["message"].endswith(
        "bytes and was not uploaded: " + server.url + " responded with 422: too odd; be plain"
    )
    assert told["message"] in err


def test_files_are_handed_over_before_the_result(tmp_path: Path) -> None:
    code = f"{LEAVE}\ndef main():\n    (out / 'sub' / 'é b').mkdir(parents=True)\n"
    code += "    leave(**{'b.txt': 'B', 'a%2F?.txt': 'A', 'sub/é b/c': '', 'sub/d#': 'D'})\n"
    code += "    os.symlink('/etc/passwd', out / 'link')\n    os.mkfifo(out / 'pipe')\n    return 'x' * 5000\n"
    with serving() as server:
        assert run(tmp_path, code, server) == (0, "", "")
    files = {"output/a%2F?.txt": b"A", "output/b.txt": b"B", "output/sub/d#": b"D", "output/sub/é b/c": b""}
    assert {path: body for path, body in server.kept.items() if path != "result.json"} == files
    assert server.asked[-1] == ("PUT", "result.json")
    assert message_of(tmp_path) == {"handed": "result.json"}


def test_files_of_a_function_that_failed_are_handed_over_too(tmp_path: Path) -> None:
    with serving() as server:
        code, _, err = run(
            tmp_path, f"{LEAVE}\ndef main():\n    leave(a='A')\n    raise ValueError('too hot')\n", server
        )
    assert (code, server.kept) == (1, {"output/a": b"A"})
    told = message_of(tmp_path)["error"]
    assert (told["type"], told["message"]) == ("ValueError", "too hot")
    assert told["traceback"] in err


@pytest.mark.parametrize("known", [True, False])
def test_a_long_error_is_cut_to_the_message_and_whole_on_the_server(tmp_path: Path, known: bool) -> None:
    deep = "def f(n):\n    return f(n - 1) if n else g()\ndef g():\n    raise ValueError('é' * 3000)\n"
    deep += "def main():\n    exec('\\n' * 5 + 'f(3)' + '  # ' + 'x' * 9000)\n"
    with serving() as server:
        assert run(tmp_path, deep, server if known else None)[0] == 1
    told = message_of(tmp_path)
    assert told["error"]["type"] == "ValueError"
    assert told["error"]["message"].startswith("é" * 1900)
    assert told.get("handed") == ("error.json" if known else None)
    if known:
        whole = json.loads(server.kept["error.json"])
        assert whole["message"] == "é" * 3000
        assert whole["traceback"].endswith(told["error"]["traceback"])


def test_the_end_of_a_long_traceback_is_kept(tmp_path: Path) -> None:
    code = "def f(n):\n    return f(n - 1) if n % 2 else g(n)\ndef g(n):\n    if not n: raise ValueError('bottom')\n"
    assert run(tmp_path, code + "    return f(n - 1)\ndef main():\n    f(120)\n")[0] == 1
    told = message_of(tmp_path)["error"]
    assert told["message"] == "bottom"
    assert told["traceback"].endswith("ValueError: bottom\n")
    assert len(told["traceback"]) > 3000


def test_what_the_function_itself_told_stays_where_there_is_nothing_else(tmp_path: Path) -> None:
    code = "import os\nopen(os.environ['FAIRLEAD_TERMINATION'], 'w').write('\"mine\"')\n"
    assert execute(tmp_path, make_pod(tmp_path, {"a.py": code}, "a.py"), **envs_of(tmp_path)) == (0, "", "")
    assert message_of(tmp_path) == "mine"


def test_a_script_that_says_why_it_ends_is_heard(tmp_path: Path) -> None:
    bootstrap = make_pod(tmp_path, {"a.py": "import sys\nsys.exit('no data')\n"}, "a.py")
    assert execute(tmp_path, bootstrap, **envs_of(tmp_path))[0] == 1
    assert message_of(tmp_path)["error"]["message"] == "no data"


def test_a_result_of_a_run_before_is_not_handed_over(tmp_path: Path) -> None:
    bootstrap = make_pod(tmp_path, {"a.py": "print('ran')\n"}, "a.py")
    (tmp_path / "home").mkdir()
    for name in ("result.json", "error.json"):
        (tmp_path / "home" / name).write_text('{"kind": "json", "value": 1}')
    assert execute(tmp_path, bootstrap, **envs_of(tmp_path)) == (0, "ran\n", "")
    assert message_of(tmp_path) is None


@pytest.mark.parametrize("content", ["[1]", "{", "null", "9" * 6000, '"' + "x" * 600_000 + '"'])
def test_what_is_no_result_is_not_told(tmp_path: Path, content: str) -> None:
    code = f"import os\nopen(os.environ['FAIRLEAD_HOME'] + '/result.json', 'w').write({content!r})\n"
    assert execute(tmp_path, make_pod(tmp_path, {"a.py": code}, "a.py"), **envs_of(tmp_path)) == (0, "", "")
    assert message_of(tmp_path) is None


ODD = ['{"kind": "file", "path": ["a"], "size": "x"}', '{"kind": "file"}', '{"kind": ["json"], "value": NaN}']


@pytest.mark.parametrize("content", ODD)
def test_a_result_that_the_function_made_up_breaks_nothing(tmp_path: Path, content: str) -> None:
    code = f"import os\nopen(os.environ['FAIRLEAD_HOME'] + '/result.json', 'w').write({content!r})\n"
    assert execute(tmp_path, make_pod(tmp_path, {"a.py": code}, "a.py"), **envs_of(tmp_path)) == (0, "", "")
    assert "result" in message_of(tmp_path)


def test_files_far_below_get_back_too(tmp_path: Path) -> None:
    code = f"{LEAVE}\nfor _ in range(300):\n    os.chdir(out)\n    out = pathlib.Path('a')\n    out.mkdir()\n"
    with serving() as server:
        answer = run(tmp_path, f"{code}(out / 'b').write_text('B')\ndef main():\n    pass\n", server)
    assert answer == (0, "", "")
    assert server.kept == {"output/" + "a/" * 300 + "b": b"B"}


# Files that are lost


def test_files_that_cannot_get_back_are_told_and_the_run_stays_completed(tmp_path: Path) -> None:
    code, _, err = run(tmp_path, f"{LEAVE}\ndef main():\n    leave(a='A', b='B')\n    return 7\n")
    why = f"{sidecar.UNREACHABLE}: {sidecar.HINT}"
    assert (code, err) == (0, f"2 output files were not uploaded: {why}\n")
    told = message_of(tmp_path)
    assert told == {"lost": {"files": 2, "why": why}, "result": {"kind": "json", "value": 7}}


@pytest.mark.parametrize(
    ("limits", "lost", "why"),
    [
        ({"MAX_FILE_BYTES": 20}, 1, "b has 30 bytes, but the limit is 20 per file and 268,435,456 per run"),
        ({"MAX_OUTPUT_BYTES": 25}, 1, "b has 30 bytes, but the limit is 67,108,864 per file and 25 per run"),
        ({"MAX_OUTPUT_BYTES": 15}, 2, "b has 30 bytes, but the limit is 67,108,864 per file and 15 per run"),
        ({"MAX_OUTPUT_FILES": 1}, 2, "a run can have at most 1 output files: pack them into one, or use a volume"),
    ],
)
def test_more_than_is_kept_is_not_even_sent(tmp_path: Path, limits: dict[str, int], lost: int, why: str) -> None:
    code = f"{LEAVE}\ndef main():\n    leave(a='A' * 10, b='B' * 30, c='C' * 10)\n"
    bootstrap = make_pod(tmp_path, {"a.py": code}, "a.py", handler="main")
    limit(bootstrap, **limits)
    with serving() as server:
        answer, _, err = execute(tmp_path, bootstrap, **envs_of(tmp_path, server))
    assert (answer, len(server.asked)) == (0, 3 - lost)
    assert why in err
    assert message_of(tmp_path)["lost"]["files"] == lost
    assert why in message_of(tmp_path)["lost"]["why"]


def test_a_file_that_the_server_refuses_is_lost_alone(tmp_path: Path) -> None:
    violation = {"path": "body", "message": "has handed over too much", "hint": "write it to a volume"}
    with serving() as server:
        server.refused["output/a"] = {"status": 422, "detail": "1 rule is broken", "violations": [violation]}
        assert run(tmp_path, f"{LEAVE}\ndef main():\n    leave(a='A', b='B')\n", server)[0] == 0
    assert server.kept == {"output/b": b"B"}
    why = f"{server.url} responded with 422: has handed over too much; write it to a volume"
    assert message_of(tmp_path)["lost"] == {"files": 1, "why": why}


def test_a_file_that_cannot_be_read_is_lost_alone_and_at_once(tmp_path: Path) -> None:
    code = f"{LEAVE}\nimport sys\ndef main():\n    leave(a='A')\n    (out / os.fsdecode(b'\\xff')).write_text('B')\n"
    with serving() as server:
        answer, _, err = run(tmp_path, code, server)
    assert (answer, server.kept) == (0, {"output/a": b"A"})
    assert err == "1 output file was not uploaded: the file name 'output/\\udcff' is not valid UTF-8\n"


@pytest.mark.parametrize("status", [401, 404])
def test_a_token_that_is_good_no_more_ends_the_handover_at_once(tmp_path: Path, status: int) -> None:
    with serving() as server:
        server.statuses = [status] * 10
        assert run(tmp_path, f"{LEAVE}\ndef main():\n    leave(a='A', b='B', c='C')\n", server)[0] == 0
    assert len(server.asked) == 1
    assert message_of(tmp_path)["lost"]["files"] == 3


def test_a_server_that_is_away_for_a_moment_loses_nothing(tmp_path: Path) -> None:
    with serving() as server:
        server.statuses = [503, 0, 200, 409]
        assert run(
            tmp_path, f"{LEAVE}\ndef main():\n    leave(a='A' * 10**6, b='B')\n    return 'x' * 5000\n", server
        ) == (0, "", "")
    assert [path for _, path in server.asked] == ["output/a"] * 3 + ["output/b"] * 2 + ["result.json"]
    assert {path: len(body) for path, body in server.kept.items() if path != "result.json"} == {
        "output/a": 10**6,
        "output/b": 1,
    }


def test_a_server_that_stays_away_is_waited_for_once(tmp_path: Path) -> None:
    code = f"{LEAVE}\ndef main():\n    leave(a='A', b='B', c='C')\n    return 1\n"
    url = silent_url()
    answer, _, err = run(tmp_path, code, url)
    assert (answer, err) == (
        0,
        f"3 output files were not uploaded: no response from {url} for 1 seconds: Connection refused\n",
    )
    assert message_of(tmp_path)["result"]["value"] == 1


def test_an_address_that_leads_elsewhere_is_said(tmp_path: Path) -> None:
    with serving() as server:
        server.statuses = [308]
        _, _, err = run(tmp_path, f"{LEAVE}\ndef main():\n    leave(a='A')\n", server)
    assert err == f"1 output file was not uploaded: {server.url} redirects to https://elsewhere.test/\n"


def test_a_server_behind_a_path_is_reached(tmp_path: Path) -> None:
    with serving("/fairlead") as server:
        assert run(tmp_path, f"{LEAVE}\ndef main():\n    leave(a='A')\n", f"{server.url}/") == (0, "", "")
    assert server.kept == {"output/a": b"A"}


# Elsewhere than in a pod, and what it costs


def test_without_a_server_and_a_message_nothing_is_different(tmp_path: Path) -> None:
    bootstrap = make_pod(
        tmp_path, {"a.py": "import os\ndef main():\n    return os.getppid()\n"}, "a.py", handler="main"
    )
    assert execute(tmp_path, bootstrap, FAIRLEAD_TERMINATION=str(tmp_path / "nowhere")) == (0, "", "")
    assert value_of(tmp_path) == os.getpid(), "no process in between"


def test_a_container_without_this_part_knows_nothing_of_pods(tmp_path: Path) -> None:
    bootstrap = make_container(
        tmp_path, {"a.py": "import os\ndef main():\n    return os.getppid()\n"}, "a.py", handler="main"
    )
    (tmp_path / "message").touch()
    assert execute(tmp_path, bootstrap, **envs_of(tmp_path, silent_url())) == (0, "", "")
    assert value_of(tmp_path) == os.getpid()
    assert message_of(tmp_path) is None


def test_nothing_more_is_loaded_into_the_process_of_the_function(tmp_path: Path) -> None:
    with serving() as server:
        run(tmp_path, LOADED, server)
    assert message_of(tmp_path)["result"]["value"][1] is False


def test_the_limits_are_those_of_the_server() -> None:
    assert (sidecar.MAX_FILE_BYTES, sidecar.MAX_OUTPUT_BYTES) == (
        run_uploads.MAX_FILE_BYTES,
        run_uploads.MAX_OUTPUT_BYTES,
    )
    assert (sidecar.MAX_OUTPUT_FILES, sidecar.MAX_OUTCOME_BYTES) == (
        run_uploads.MAX_OUTPUT_FILES,
        outcomes.MAX_OUTCOME_BYTES,
    )

"""The bootstrap as a container starts it: a process of its own, with call.json and the code beside it."""

import ast
import base64
import contextlib
import hashlib
import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import fairlead.bootstrap
from fairlead.files.sources import pack
from tests.cli.terminal import preview, write

BOOTSTRAP = Path(fairlead.bootstrap.__file__)
MODEL = """
loaded = []

def init(scale):
    loaded.append(scale)

def predict(x=1):
    if x == "odd":
        return {1, 2}
    return {"y": 10 / x * loaded[0], "inits": len(loaded)}
"""


def make_container(folder: Path, files: dict[str, str], source: str | None, **call: Any) -> Path:
    """A folder as the container sees it: the bootstrap, what to call, and the code."""
    write(folder / "work", files)
    mounted = folder / "mounted"
    mounted.mkdir()
    shutil.copy(BOOTSTRAP, mounted / "bootstrap.py")
    archive = pack(folder / "work", source) if source else b""
    (mounted / "code.tar.gz").write_bytes(archive)
    digest = f"sha256:{hashlib.sha256(archive).hexdigest()}"
    whole: dict[str, Any] = {"action": "job", "source": source, "handler": None, "command": [], "inputs": {}}
    whole |= {"port": None, "digest": digest, **call}
    (mounted / "call.json").write_text(json.dumps(whole), "utf-8")
    return mounted / "bootstrap.py"


def start(folder: Path, bootstrap: Path, *words: str) -> "subprocess.Popen[str]":
    environment = {**os.environ, "FAIRLEAD_HOME": str(folder / "home"), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-u", str(bootstrap), *words]
    return subprocess.Popen(
        command, cwd=folder, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


def execute(folder: Path, bootstrap: Path, *words: str) -> tuple[int, str, str]:
    process = start(folder, bootstrap, *words)
    out, err = process.communicate(timeout=30)
    return process.returncode, out, err


def result_of(folder: Path) -> Any:
    return json.loads((folder / "home" / "result.json").read_text("utf-8"))


def test_a_handler_is_called_with_the_inputs_and_its_result_is_kept(tmp_path: Path) -> None:
    code = "def main(epochs, names):\n    print('training')\n    return {'epochs': epochs + 1, 'names': names}\n"
    inputs = {"epochs": 3, "names": ["é", None, True]}
    bootstrap = make_container(tmp_path, {"train.py": code}, "train.py", handler="main", inputs=inputs)
    assert execute(tmp_path, bootstrap) == (0, "training\n", "")
    assert result_of(tmp_path) == {"epochs": 4, "names": ["é", None, True]}


def test_a_folder_without_a_handler_runs_its_main_with_arguments_and_modules(tmp_path: Path) -> None:
    code = "import sys, lib\nif __name__ == '__main__':\n    print(sys.argv[1:], lib.x)\n"
    bootstrap = make_container(tmp_path, {"src/__main__.py": code, "src/lib.py": "x = 7\n"}, "src")
    assert execute(tmp_path, bootstrap, "--epochs", "3") == (0, "['--epochs', '3'] 7\n", "")


def test_a_command_runs_in_the_folder_of_the_code_with_its_arguments(tmp_path: Path) -> None:
    files = {"src/show.py": "import os, sys\nprint(sorted(os.listdir()), sys.argv[1:])\n"}
    command = [sys.executable, "src/show.py", "one"]
    bootstrap = make_container(tmp_path, files, "src", command=command)
    assert execute(tmp_path, bootstrap, "two") == (0, "['src'] ['one', 'two']\n", "")


def test_a_command_that_is_not_there_is_said_in_one_line(tmp_path: Path) -> None:
    bootstrap = make_container(tmp_path, {"a.py": ""}, "a.py", command=["nowhere-to-be-found"])
    code, _, err = execute(tmp_path, bootstrap)
    assert code == 1
    assert err == "cannot run 'nowhere-to-be-found': No such file or directory\n"


@pytest.mark.parametrize("source", ["train.py", "src/train.py"])
def test_a_script_runs_wherever_it_lies(tmp_path: Path, source: str) -> None:
    code = "import sys\nprint(__name__, sys.argv[1:])\n"
    bootstrap = make_container(tmp_path, {source: code}, source)
    assert execute(tmp_path, bootstrap, "a b") == (0, "__main__ ['a b']\n", "")
    assert not (tmp_path / "home" / "result.json").exists()


@pytest.mark.parametrize("handler", ["main", "train:main"])
@pytest.mark.parametrize("source", ["train.py", "src/train.py"])
def test_a_handler_is_found_wherever_its_file_lies(tmp_path: Path, source: str, handler: str) -> None:
    bootstrap = make_container(tmp_path, {source: "def main():\n    return 'found'\n"}, source, handler=handler)
    assert execute(tmp_path, bootstrap) == (0, "", "")
    assert result_of(tmp_path) == "found"


def test_a_handler_of_a_folder_is_a_module_and_a_function(tmp_path: Path) -> None:
    files = {
        "src/pipeline/__init__.py": "",
        "src/pipeline/steps.py": "import helper\ndef run(n):\n    return helper.f(n)\n",
    }
    files["src/helper.py"] = "def f(n):\n    return n * 2\n"
    bootstrap = make_container(tmp_path, files, "src", handler="pipeline.steps:run", inputs={"n": 21})
    assert execute(tmp_path, bootstrap) == (0, "", "")
    assert result_of(tmp_path) == 42


@pytest.mark.parametrize("name", ["json", "code", "types", "queue", "my-train", "bootstrap"])
def test_a_file_may_be_called_like_a_module_of_python(tmp_path: Path, name: str) -> None:
    source = f"{name}.py"
    bootstrap = make_container(tmp_path, {source: "def main():\n    return 'mine'\n"}, source, handler="main")
    assert execute(tmp_path, bootstrap) == (0, "", "")
    assert result_of(tmp_path) == "mine"


def test_code_that_is_not_what_was_submitted_does_not_run(tmp_path: Path) -> None:
    bootstrap = make_container(tmp_path, {"a.py": "print('ran')"}, "a.py", digest="sha256:0000")
    code, out, err = execute(tmp_path, bootstrap)
    assert (code, out) == (1, "")
    assert err.startswith("the code is not what was submitted: expected sha256:0000, found sha256:")


@pytest.mark.parametrize(
    ("handler", "said"),
    [("train", "there is no function 'train' in 'a.py'"), ("x", "there is no function 'x' in 'a.py'")],
)
def test_a_handler_that_is_not_there_is_said_in_one_line(tmp_path: Path, handler: str, said: str) -> None:
    bootstrap = make_container(tmp_path, {"a.py": "x = 5\n"}, "a.py", handler=handler)
    assert execute(tmp_path, bootstrap) == (1, "", f"{said}\n")


def test_a_module_that_is_not_there_is_said(tmp_path: Path) -> None:
    bootstrap = make_container(tmp_path, {"a.py": ""}, "a.py", handler="nowhere:main")
    code, _, err = execute(tmp_path, bootstrap)
    assert code == 1
    assert "nowhere" in err


def test_a_function_without_a_source_says_so(tmp_path: Path) -> None:
    code, _, err = execute(tmp_path, make_container(tmp_path, {}, None))
    assert code == 1
    assert "Traceback" not in err
    assert "no source" in err


@pytest.mark.parametrize(
    "result", ["{1, 2}", "b'x'", "object()", "float('nan')", "{'loss': float('inf')}", "{(1, 2): 3}"]
)
def test_a_result_that_is_not_json_is_a_failure_that_says_so(tmp_path: Path, result: str) -> None:
    bootstrap = make_container(tmp_path, {"a.py": f"def main():\n    return {result}\n"}, "a.py", handler="main")
    code, _, err = execute(tmp_path, bootstrap)
    assert code == 1
    assert err.startswith("the function returned something that is not JSON: ")
    assert not (tmp_path / "home" / "result.json").exists()


def test_a_function_that_returns_nothing_has_the_result_null(tmp_path: Path) -> None:
    bootstrap = make_container(tmp_path, {"a.py": "def main():\n    pass\n"}, "a.py", handler="main")
    assert execute(tmp_path, bootstrap) == (0, "", "")
    assert result_of(tmp_path) is None


@pytest.mark.parametrize("handler", ["main", None])
def test_an_exception_is_a_traceback_and_the_answer_1(tmp_path: Path, handler: str | None) -> None:
    code = "def main():\n    raise ValueError('too hot')\n\nif __name__ == '__main__':\n    main()\n"
    bootstrap = make_container(tmp_path, {"a.py": code}, "a.py", handler=handler)
    answer, _, err = execute(tmp_path, bootstrap)
    assert answer == 1
    assert err.startswith("Traceback (most recent call last):\n")
    assert err.endswith("ValueError: too hot\n")
    assert "a.py" in err


def test_a_script_decides_its_own_exit_code(tmp_path: Path) -> None:
    bootstrap = make_container(tmp_path, {"a.py": "import sys\nsys.exit(7)\n"}, "a.py")
    assert execute(tmp_path, bootstrap)[0] == 7


def test_inputs_that_the_function_does_not_take_are_named(tmp_path: Path) -> None:
    bootstrap = make_container(tmp_path, {"a.py": "def main():\n    pass\n"}, "a.py", handler="main", inputs={"x": 1})
    code, _, err = execute(tmp_path, bootstrap)
    assert code == 1
    assert "unexpected keyword argument 'x'" in err


def test_a_container_that_is_started_again_runs_again(tmp_path: Path) -> None:
    bootstrap = make_container(tmp_path, {"a.py": "def main():\n    return 1\n"}, "a.py", handler="main")
    assert [execute(tmp_path, bootstrap)[0] for _ in range(2)] == [0, 0]


@pytest.mark.parametrize("source", ["train.py", "src/train.py", "src"])
def test_what_a_preview_renders_is_what_runs(tmp_path: Path, source: str) -> None:
    write(tmp_path, dict.fromkeys(("train.py", "src/train.py"), "def main(n):\n    return n + 1\n"))
    request = f"function: {{name: a, source: {source}, handler: 'train:main'}}\ninputs: {{n: 41}}"
    plan = json.loads(preview(tmp_path, request, "-o", "json").out)
    (code,) = [manifest for manifest in plan["manifests"] if manifest["kind"] == "ConfigMap"]
    write(tmp_path / "mounted", code["data"])
    (tmp_path / "mounted" / "code.tar.gz").write_bytes(base64.b64decode(code["binaryData"]["code.tar.gz"]))
    assert execute(tmp_path, tmp_path / "mounted" / "bootstrap.py") == (0, "", "")
    assert result_of(tmp_path) == 42


@contextlib.contextmanager
def served(folder: Path, code: str = MODEL, **call: Any) -> Iterator[tuple[str, "subprocess.Popen[str]"]]:
    """A served function on a free port of this machine, ended by its id."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    whole = {"action": "serve", "handler": "predict", "inputs": {"scale": 2}, "port": port} | call
    process = start(folder, make_container(folder, {"model.py": code}, "model.py", **whole))
    try:
        wait_for(port, process)
        yield f"http://127.0.0.1:{port}/", process
    finally:
        process.terminate()
        process.communicate(timeout=10)


def wait_for(port: int, process: "subprocess.Popen[str]") -> None:
    for _ in range(200):
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        if process.poll() is not None:
            break
        time.sleep(0.05)
    pytest.fail(f"nothing listens: {process.stderr.read() if process.stderr else ''}")


def ask(url: str, body: bytes | None, **headers: str) -> tuple[int, Any]:
    try:
        with urllib.request.urlopen(urllib.request.Request(url, body, headers), timeout=10) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


def test_a_served_function_answers_and_outlives_bad_requests(tmp_path: Path) -> None:
    with served(tmp_path) as (url, process):
        assert ask(url, None) == (200, {"status": "ready"})
        assert ask(url, b'{"x": 5}') == (200, {"y": 4.0, "inits": 1})
        assert ask(url, b"") == (200, {"y": 20.0, "inits": 1})
        for body in (b"{", b"[1]", b"5", b"\xff", b'"x"'):
            status, said = ask(url, body)
            assert (status, list(said)) == (400, ["error"])
        assert ask(url, b'{"x": 0}') == (500, {"error": "ZeroDivisionError: division by zero"})
        status, said = ask(url, b'{"x": "odd"}')
        assert (status, list(said)) == (500, ["error"])
        status, said = ask(url, b'{"z": 1}')
        assert status == 500
        assert "unexpected keyword argument 'z'" in said["error"]
        assert ask(url, b'{"x": 5}') == (200, {"y": 4.0, "inits": 1}), "init is called once"
        assert process.poll() is None


def test_a_served_result_that_is_no_json_is_a_failure_not_half_an_answer(tmp_path: Path) -> None:
    code = "def predict(x=1):\n    return float('nan')\n"
    with served(tmp_path, code, inputs={}) as (url, _):
        status, said = ask(url, b"{}")
    assert (status, list(said)) == (500, ["error"])


def test_an_exception_of_a_served_function_leaves_its_traceback_in_the_log(tmp_path: Path) -> None:
    with served(tmp_path) as (url, process):
        ask(url, b'{"x": 0}')
        process.terminate()
        assert process.stderr is not None
        log = process.stderr.read()
    assert "ZeroDivisionError" in log
    assert "model.py" in log, "the line that failed is what its author needs"


@pytest.mark.parametrize("length", ["-1", "x", ""])
def test_a_wrong_length_is_a_bad_request_and_blocks_nobody(tmp_path: Path, length: str) -> None:
    with served(tmp_path) as (url, _):
        port = int(url.split(":")[2].strip("/"))
        with socket.create_connection(("127.0.0.1", port), timeout=2) as client:
            client.sendall(f"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n".encode())
            answer = client.recv(100)
    assert answer.split()[1] in ((b"200",) if not length else (b"400",))


def test_a_served_function_without_init_is_served_too(tmp_path: Path) -> None:
    with served(tmp_path, "def predict(**inputs):\n    return inputs\n", inputs={}) as (url, _):
        assert ask(url, b'{"a": [1]}') == (200, {"a": [1]})


def test_the_init_beside_an_imported_handler_is_the_one_that_is_called(tmp_path: Path) -> None:
    code = "from json import dumps as predict\ndef init(greeting):\n    print(greeting)\n    raise SystemExit(7)\n"
    call = {"action": "serve", "handler": "predict", "inputs": {"greeting": "hello"}, "port": 1}
    answer, out, _ = execute(tmp_path, make_container(tmp_path, {"a.py": code}, "a.py", **call))
    assert (answer, out) == (7, "hello\n")


def test_inputs_that_no_init_takes_are_said_not_dropped(tmp_path: Path) -> None:
    call = {"action": "serve", "handler": "predict", "inputs": {"a": 1}, "port": 1}
    answer, _, err = execute(tmp_path, make_container(tmp_path, {"a.py": "def predict(): ...\n"}, "a.py", **call))
    assert (answer, err) == (1, "inputs are for init(), and there is no such function beside the handler\n")


def test_an_init_that_fails_ends_the_process_with_its_traceback(tmp_path: Path) -> None:
    code = "def init():\n    raise RuntimeError('no weights')\ndef predict():\n    pass\n"
    call = {"action": "serve", "handler": "predict", "inputs": {}, "port": 1}
    answer, _, err = execute(tmp_path, make_container(tmp_path, {"a.py": code}, "a.py", **call))
    assert answer == 1
    assert err.endswith("RuntimeError: no weights\n")


def test_the_bootstrap_is_python_3_8_and_the_standard_library_only() -> None:
    text = BOOTSTRAP.read_text("utf-8")
    tree = ast.parse(text, feature_version=(3, 8))
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    imported |= {str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert {name.split(".")[0] for name in imported} <= set(sys.stdlib_module_names)
    # Names that came after 3.8, and types that cannot be subscripted or joined there.
    newer = ("removeprefix", "removesuffix", "tomllib", "zoneinfo", "graphlib", "pairwise", "batched", "StrEnum")
    assert [name for name in newer if name in text] == []
    subscripted = [
        node.value.id for node in ast.walk(tree) if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name)
    ]
    assert [name for name in subscripted if name in ("dict", "list", "tuple", "set", "type")] == []
    assert not [node for node in ast.walk(tree) if isinstance(node, ast.Match)]
    joined = [
        node.annotation for node in ast.walk(tree) if isinstance(node, ast.arg | ast.AnnAssign) and node.annotation
    ]
    assert not [node for node in joined if isinstance(node, ast.BinOp)]

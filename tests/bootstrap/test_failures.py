"""Function failures: a traceback on stderr, and error.json."""

import signal
import time
from pathlib import Path

import pytest

from tests.bootstrap.containers import call_code, error_of, execute, make_container, start

FRAMES = ("bootstrap.py", "runpy", "importlib", "asyncio")


@pytest.mark.parametrize("start", ["def", "async def", "script"])
def test_tracebacks_contain_only_frames_of_the_code(tmp_path: Path, start: str) -> None:
    define = "def" if start == "script" else start
    code = f"def deep():\n    raise ValueError('too hot')\n\n{define} main():\n    deep()\n"
    code += "main()\n" if start == "script" else ""
    handler = None if start == "script" else "main"
    bootstrap = make_container(tmp_path, {"a.py": code}, "a.py", handler=handler)
    exit_code, out, err = execute(tmp_path, bootstrap)
    assert (exit_code, out) == (1, "")
    lines = err.splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert lines[1].endswith(
        f'a.py", line {6 if start == "script" else 5}, in {"<module>" if start == "script" else "main"}'
    )
    assert lines[-1] == "ValueError: too hot"
    assert [name for name in FRAMES if name in err] == []
    assert error_of(tmp_path) == {"type": "ValueError", "message": "too hot", "traceback": err}


@pytest.mark.parametrize(
    ("code", "kind", "message"),
    [
        ("def main(:\n", "SyntaxError", 'a.py", line 1'),
        ("import nowhere_to_be_found\n", "ModuleNotFoundError", 'a.py", line 1, in <module>'),
        ("1 / 0\n", "ZeroDivisionError", 'a.py", line 1, in <module>'),
    ],
)
@pytest.mark.parametrize("handler", ["main", "b:main", None])
def test_import_errors_are_reported_with_their_line(
    tmp_path: Path, code: str, kind: str, message: str, handler: str | None
) -> None:
    files = {"src/a.py": code, "src/b.py": "import a\n"}
    source = "src" if handler == "b:main" else "src/a.py"
    exit_code, _, err = execute(tmp_path, make_container(tmp_path, files, source, handler=handler))
    assert exit_code == 1
    assert message in err
    assert [name for name in FRAMES if name in err] == []
    assert error_of(tmp_path)["type"] == kind
    assert error_of(tmp_path)["traceback"] == err


def test_the_cause_of_an_exception_is_shown_with_its_traceback(tmp_path: Path) -> None:
    code = "def main():\n    try:\n        {}['x']\n"
    code += "    except KeyError as error:\n        raise RuntimeError('no x') from error\n"
    _, _, err = call_code(tmp_path, code)
    assert err.index("KeyError: 'x'") < err.index("direct cause") < err.index("RuntimeError: no x")
    assert "bootstrap.py" not in err


@pytest.mark.parametrize(
    ("code", "handler", "message"),
    [
        ("def train(): ...\n", "trian", "no function 'trian' in 'a.py'; did you mean 'train'?"),
        ("def one(): ...\ndef two(): ...\n", "main", "no function 'main' in 'a.py'; it has 'one', 'two'"),
        ("x = 5\n", "x", "no function 'x' in 'a.py'"),
        ("", "lib:mian", "no function 'mian' in 'lib'; did you mean 'main'?"),
    ],
)
def test_a_missing_handler_is_reported_with_the_nearest_name(
    tmp_path: Path, code: str, handler: str, message: str
) -> None:
    lib_files = {"src/a.py": code, "src/lib.py": "def main(): ...\n"}
    source = "src" if ":" in handler else "a.py"
    bootstrap = make_container(tmp_path, {**lib_files, "a.py": code}, source, handler=handler)
    assert execute(tmp_path, bootstrap) == (1, "", f"{message}\n")
    assert error_of(tmp_path) == {"type": "HandlerMissing", "message": message, "traceback": ""}


def test_a_missing_module_is_reported(tmp_path: Path) -> None:
    bootstrap = make_container(tmp_path, {"a.py": ""}, "a.py", handler="nowhere:main")
    assert execute(tmp_path, bootstrap) == (1, "", "ModuleNotFoundError: No module named 'nowhere'\n")


@pytest.mark.parametrize(
    ("signature", "inputs", "problem"),
    [
        ("epochs: int, lr=0.1", {}, "main() missing 1 required positional argument: 'epochs'"),
        ("epochs: int, lr=0.1", {"epochs": 1, "lrr": 2}, "main() got an unexpected keyword argument 'lrr'"),
        ("", {"x": 1}, "main() got an unexpected keyword argument 'x'"),
    ],
)
@pytest.mark.parametrize("define", ["def", "async def"])
def test_mismatched_inputs_are_reported_with_the_signature(
    tmp_path: Path, define: str, signature: str, inputs: dict[str, int], problem: str
) -> None:
    exit_code, _, err = call_code(tmp_path, f"{define} main({signature}):\n    pass\n", **inputs)
    message = error_of(tmp_path)["message"]
    assert (exit_code, err) == (1, f"{message}\n")
    assert message.startswith(f"the inputs do not match the function: {problem}")
    assert message.endswith(f"; its signature is main({signature})")
    assert error_of(tmp_path)["type"] == "InputsMismatch"


def test_a_type_error_inside_the_function_is_not_an_input_mismatch(tmp_path: Path) -> None:
    _, _, err = call_code(tmp_path, "def f(x): ...\ndef main(a):\n    f()\n", a=1)
    assert error_of(tmp_path)["type"] == "TypeError"
    assert "in main" in err


@pytest.mark.parametrize("handler", ["main", None])
@pytest.mark.parametrize(("code", "expected"), [("3", 3), ("0", 0), ("", 0), ("True", 1)])
def test_code_sets_its_exit_code(tmp_path: Path, code: str, expected: int, handler: str | None) -> None:
    text = f"import sys\ndef main():\n    sys.exit({code})\nif __name__ == '__main__':\n    main()\n"
    assert execute(tmp_path, make_container(tmp_path, {"a.py": text}, "a.py", handler=handler)) == (expected, "", "")
    assert not (tmp_path / "home" / "error.json").exists()


def test_an_exit_with_a_message_is_a_failure_with_that_message(tmp_path: Path) -> None:
    assert call_code(tmp_path, "def main():\n    raise SystemExit('no data')\n") == (1, "", "no data\n")
    assert error_of(tmp_path) == {"type": "SystemExit", "message": "no data", "traceback": ""}


def test_the_end_of_a_long_traceback_is_stored(tmp_path: Path) -> None:
    code = "def main():\n    raise ValueError('é' * 100_000 + 'end')\n"
    _, _, err = call_code(tmp_path, code)
    error = error_of(tmp_path)
    assert len(error["traceback"].encode()) in (64 * 1024, 64 * 1024 - 1)
    assert err.endswith(error["traceback"])
    assert error["message"] == "é" * 8192


@pytest.mark.parametrize("method", ["__str__", "__repr__"])
def test_an_exception_that_cannot_be_formatted_is_a_failure(tmp_path: Path, method: str) -> None:
    code = f"class Odd(BaseException):\n    def {method}(self):\n        raise KeyError\n"
    code += "def main():\n    raise Odd('\\ud800')\n"
    assert call_code(tmp_path, code)[0] == 1
    assert error_of(tmp_path)["type"] == "Odd"


@pytest.mark.parametrize("name", ["traceback", "linecache", "token", "inspect", "difflib"])
def test_files_named_like_python_modules_do_not_hide_a_failure(tmp_path: Path, name: str) -> None:
    files = {
        f"src/{name}.py": "raise RuntimeError('not this one')\n",
        "src/a.py": "def main():\n    raise ValueError('x')\n",
    }
    _, _, err = execute(tmp_path, make_container(tmp_path, files, "src", handler="a:main"))
    assert err.endswith("ValueError: x\n")
    assert error_of(tmp_path)["message"] == "x"


def test_sigterm_terminates_the_process(tmp_path: Path) -> None:
    code = "import time\ndef main():\n    print('started')\n    time.sleep(60)\n"
    process = start(tmp_path, make_container(tmp_path, {"a.py": code}, "a.py", handler="main"))
    assert process.stdout is not None
    assert process.stdout.readline() == "started\n"
    started = time.monotonic()
    process.terminate()
    process.communicate(timeout=10)
    assert process.returncode == -signal.SIGTERM
    assert time.monotonic() - started < 5
    assert not (tmp_path / "home" / "error.json").exists()

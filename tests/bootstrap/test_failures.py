"""A function that fails says why: to its author as Python does, and in error.json."""

import signal
import time
from pathlib import Path

import pytest

from tests.bootstrap.containers import call_code, error_of, execute, make_container, start

FRAMES = ("bootstrap.py", "runpy", "importlib", "asyncio")


@pytest.mark.parametrize("start", ["def", "async def", "script"])
def test_an_exception_is_the_traceback_of_the_code_alone(tmp_path: Path, start: str) -> None:
    define = "def" if start == "script" else start
    code = f"def deep():\n    raise ValueError('too hot')\n\n{define} main():\n    deep()\n"
    code += "main()\n" if start == "script" else ""
    handler = None if start == "script" else "main"
    bootstrap = make_container(tmp_path, {"a.py": code}, "a.py", handler=handler)
    answer, out, err = execute(tmp_path, bootstrap)
    assert (answer, out) == (1, "")
    lines = err.splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert lines[1].endswith(
        f'a.py", line {6 if start == "script" else 5}, in {"<module>" if start == "script" else "main"}'
    )
    assert lines[-1] == "ValueError: too hot"
    assert [name for name in FRAMES if name in err] == []
    assert error_of(tmp_path) == {"type": "ValueError", "message": "too hot", "traceback": err}


@pytest.mark.parametrize(
    ("code", "kind", "said"),
    [
        ("def main(:\n", "SyntaxError", 'a.py", line 1'),
        ("import nowhere_to_be_found\n", "ModuleNotFoundError", 'a.py", line 1, in <module>'),
        ("1 / 0\n", "ZeroDivisionError", 'a.py", line 1, in <module>'),
    ],
)
@pytest.mark.parametrize("handler", ["main", "b:main", None])
def test_code_that_cannot_be_loaded_says_which_line(
    tmp_path: Path, code: str, kind: str, said: str, handler: str | None
) -> None:
    files = {"src/a.py": code, "src/b.py": "import a\n"}
    source = "src" if handler == "b:main" else "src/a.py"
    answer, _, err = execute(tmp_path, make_container(tmp_path, files, source, handler=handler))
    assert answer == 1
    assert said in err
    assert [name for name in FRAMES if name in err] == []
    assert error_of(tmp_path)["type"] == kind
    assert error_of(tmp_path)["traceback"] == err


def test_a_cause_is_told_with_its_own_traceback(tmp_path: Path) -> None:
    code = "def main():\n    try:\n        {}['x']\n"
    code += "    except KeyError as error:\n        raise RuntimeError('no x') from error\n"
    _, _, err = call_code(tmp_path, code)
    assert err.index("KeyError: 'x'") < err.index("direct cause") < err.index("RuntimeError: no x")
    assert "bootstrap.py" not in err


@pytest.mark.parametrize(
    ("code", "handler", "said"),
    [
        ("def train(): ...\n", "trian", "no function 'trian' in 'a.py'; did you mean 'train'?"),
        ("def one(): ...\ndef two(): ...\n", "main", "no function 'main' in 'a.py'; it has 'one', 'two'"),
        ("x = 5\n", "x", "no function 'x' in 'a.py'"),
        ("", "lib:mian", "no function 'mian' in 'lib'; did you mean 'main'?"),
    ],
)
def test_a_handler_that_is_not_there_is_said_with_the_nearest(
    tmp_path: Path, code: str, handler: str, said: str
) -> None:
    write_lib = {"src/a.py": code, "src/lib.py": "def main(): ...\n"}
    source = "src" if ":" in handler else "a.py"
    bootstrap = make_container(tmp_path, {**write_lib, "a.py": code}, source, handler=handler)
    assert execute(tmp_path, bootstrap) == (1, "", f"{said}\n")
    assert error_of(tmp_path) == {"type": "HandlerMissing", "message": said, "traceback": ""}


def test_a_module_that_is_not_there_is_said(tmp_path: Path) -> None:
    bootstrap = make_container(tmp_path, {"a.py": ""}, "a.py", handler="nowhere:main")
    assert execute(tmp_path, bootstrap) == (1, "", "ModuleNotFoundError: No module named 'nowhere'\n")


@pytest.mark.parametrize(
    ("signature", "inputs", "said"),
    [
        ("epochs: int, lr=0.1", {}, "main() missing 1 required positional argument: 'epochs'"),
        ("epochs: int, lr=0.1", {"epochs": 1, "lrr": 2}, "main() got an unexpected keyword argument 'lrr'"),
        ("", {"x": 1}, "main() got an unexpected keyword argument 'x'"),
    ],
)
@pytest.mark.parametrize("define", ["def", "async def"])
def test_inputs_that_do_not_match_are_said_with_the_signature(
    tmp_path: Path, define: str, signature: str, inputs: dict[str, int], said: str
) -> None:
    answer, _, err = call_code(tmp_path, f"{define} main({signature}):\n    pass\n", **inputs)
    message = error_of(tmp_path)["message"]
    assert (answer, err) == (1, f"{message}\n")
    assert message.startswith(f"the inputs do not match the function: {said}")
    assert message.endswith(f"; its signature is main({signature})")
    assert error_of(tmp_path)["type"] == "InputsMismatch"


def test_a_type_error_inside_the_function_is_not_about_its_inputs(tmp_path: Path) -> None:
    _, _, err = call_code(tmp_path, "def f(x): ...\ndef main(a):\n    f()\n", a=1)
    assert error_of(tmp_path)["type"] == "TypeError"
    assert "in main" in err


@pytest.mark.parametrize("handler", ["main", None])
@pytest.mark.parametrize(("code", "ended"), [("3", 3), ("0", 0), ("", 0), ("True", 1)])
def test_code_decides_its_own_exit_code(tmp_path: Path, code: str, ended: int, handler: str | None) -> None:
    text = f"import sys\ndef main():\n    sys.exit({code})\nif __name__ == '__main__':\n    main()\n"
    assert execute(tmp_path, make_container(tmp_path, {"a.py": text}, "a.py", handler=handler)) == (ended, "", "")
    assert not (tmp_path / "home" / "error.json").exists()


def test_an_exit_with_a_sentence_is_a_failure_that_says_it(tmp_path: Path) -> None:
    assert call_code(tmp_path, "def main():\n    raise SystemExit('no data')\n") == (1, "", "no data\n")
    assert error_of(tmp_path) == {"type": "SystemExit", "message": "no data", "traceback": ""}


def test_of_a_long_traceback_the_end_is_kept(tmp_path: Path) -> None:
    code = "def main():\n    raise ValueError('é' * 100_000 + 'end')\n"
    _, _, err = call_code(tmp_path, code)
    found = error_of(tmp_path)
    assert len(found["traceback"].encode()) in (64 * 1024, 64 * 1024 - 1)
    assert err.endswith(found["traceback"])
    assert found["message"] == "é" * 8192


@pytest.mark.parametrize("method", ["__str__", "__repr__"])
def test_an_exception_that_cannot_be_shown_is_a_failure_all_the_same(tmp_path: Path, method: str) -> None:
    code = f"class Odd(BaseException):\n    def {method}(self):\n        raise KeyError\n"
    code += "def main():\n    raise Odd('\\ud800')\n"
    assert call_code(tmp_path, code)[0] == 1
    assert error_of(tmp_path)["type"] == "Odd"


@pytest.mark.parametrize("name", ["traceback", "linecache", "token", "inspect", "difflib"])
def test_files_called_like_modules_of_python_do_not_hide_a_failure(tmp_path: Path, name: str) -> None:
    files = {
        f"src/{name}.py": "raise RuntimeError('not this one')\n",
        "src/a.py": "def main():\n    raise ValueError('x')\n",
    }
    _, _, err = execute(tmp_path, make_container(tmp_path, files, "src", handler="a:main"))
    assert err.endswith("ValueError: x\n")
    assert error_of(tmp_path)["message"] == "x"


def test_a_signal_ends_it_as_it_ends_every_program(tmp_path: Path) -> None:
    code = "import time\ndef main():\n    print('started')\n    time.sleep(60)\n"
    process = start(tmp_path, make_container(tmp_path, {"a.py": code}, "a.py", handler="main"))
    assert process.stdout is not None
    assert process.stdout.readline() == "started\n"
    began = time.monotonic()
    process.terminate()
    process.communicate(timeout=10)
    assert process.returncode == -signal.SIGTERM
    assert time.monotonic() - began < 5
    assert not (tmp_path / "home" / "error.json").exists()

"""Return values are stored completely, or the run fails and names the part that cannot be stored."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.bootstrap.containers import call_code, error_of, execute, make_container, result_of, value_of

SUGGESTION = "; return JSON or bytes, or write files to $FAIRLEAD_OUTPUT"


def return_value(folder: Path, result: str) -> tuple[int, str, str]:
    """Call a function that returns an expression's value."""
    return call_code(folder, f"import array\nclass Tensor: pass\ndef main():\n    return {result}\n")


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        ("None", None),
        ("{'loss': 0.5, 'names': ('é', '\\n')}", {"loss": 0.5, "names": ["é", "\n"]}),
        ("10**30", 10**30),
        ("{1: True, None: 2.5}", {"1": True, "null": 2.5}),
        ("'x' * (256 * 1024 - 2)", "x" * (256 * 1024 - 2)),
    ],
)
def test_small_json_is_stored_unchanged(tmp_path: Path, result: str, expected: Any) -> None:
    assert return_value(tmp_path, result) == (0, "", "")
    assert value_of(tmp_path) == expected
    assert list((tmp_path / "home" / "output").iterdir()) == []


def test_large_json_is_an_output_file(tmp_path: Path) -> None:
    assert return_value(tmp_path, "['é' * 128 * 1024]") == (0, "", "")
    data = (tmp_path / "home" / "output" / "result.json").read_bytes()
    assert json.loads(data) == ["é" * 128 * 1024]
    assert result_of(tmp_path) == {"kind": "file", "path": "result.json", "type": "json", "size": len(data)}


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        ("b'\\x00\\xff'", b"\x00\xff"),
        ("b''", b""),
        ("bytearray(b'abc')", b"abc"),
        ("memoryview(b'abcdef')[::2]", b"ace"),
        ("memoryview(array.array('i', [1, 2]))", b"\x01\0\0\0\x02\0\0\0"),
        ("bytes(1000) * 1000", bytes(1_000_000)),
    ],
)
def test_bytes_are_an_output_file(tmp_path: Path, result: str, expected: bytes) -> None:
    assert return_value(tmp_path, result) == (0, "", "")
    assert (tmp_path / "home" / "output" / "result.bin").read_bytes() == expected
    assert result_of(tmp_path) == {"kind": "file", "path": "result.bin", "type": "bytes", "size": len(expected)}


@pytest.mark.parametrize(
    ("result", "problem"),
    [
        ("{1, 2}", "result is a set"),
        ("object()", "result is an object"),
        ("{'model': Tensor()}", "result.model is a Tensor"),
        ("[{'a b': [1, (2, Tensor())]}]", "result[0]['a b'][1][1] is a Tensor"),
        ("{'data': b'x'}", "result.data is a bytes"),
        ("{(1, 2): 3}", "result has a key that is a tuple"),
        ("float('nan')", "result is nan"),
        ("{'loss': [float('-inf')]}", "result.loss[0] is -inf"),
        ("(n for n in [1])", "result is a generator"),
        ("main", "result is a function"),
        ("(lambda a: a.append(a) or a)([])", "result[0] contains itself"),
    ],
)
def test_a_result_that_is_not_json_fails_with_its_path(tmp_path: Path, result: str, problem: str) -> None:
    code, _, err = return_value(tmp_path, result)
    message = f"the function's result is not JSON: {problem}{SUGGESTION}"
    assert (code, err) == (1, f"{message}\n")
    assert error_of(tmp_path) == {"type": "ResultNotJSON", "message": message, "traceback": ""}


@pytest.mark.parametrize(
    "result", ["'\\ud800'", "10**5000", "__import__('functools').reduce(lambda a, _: [a], range(10**5), [])"]
)
def test_values_that_cannot_be_parsed_again_are_not_json(tmp_path: Path, result: str) -> None:
    code, _, err = return_value(tmp_path, result)
    assert code == 1
    assert err.startswith("the function's result is not JSON: ")
    assert error_of(tmp_path)["type"] == "ResultNotJSON"


def test_the_output_folder_can_be_configured(tmp_path: Path) -> None:
    code = "import os\ndef main():\n    print(os.listdir(os.environ['FAIRLEAD_OUTPUT']))\n    return b'x'\n"
    bootstrap = make_container(tmp_path, {"a.py": code}, "a.py", handler="main")
    assert execute(tmp_path, bootstrap, FAIRLEAD_OUTPUT="else/where") == (0, "[]\n", "")
    assert (tmp_path / "else" / "where" / "result.bin").read_bytes() == b"x"


def test_a_restarted_container_removes_earlier_results(tmp_path: Path) -> None:
    code = "import os\ndef main():\n    mark = os.environ['FAIRLEAD_HOME'] + '/mark'\n"
    code += "    first = not os.path.exists(mark)\n    open(mark, 'w').close()\n    return 1 if first else 1 / 0\n"
    bootstrap = make_container(tmp_path, {"a.py": code}, "a.py", handler="main")
    assert execute(tmp_path, bootstrap)[0] == 0
    assert value_of(tmp_path) == 1
    assert execute(tmp_path, bootstrap)[0] == 1
    assert error_of(tmp_path)["type"] == "ZeroDivisionError"
    (tmp_path / "home" / "mark").unlink()
    assert execute(tmp_path, bootstrap)[0] == 0
    assert not (tmp_path / "home" / "error.json").exists()

"""Return values are stored completely, or the run fails with the part that cannot be stored."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.bootstrap.containers import call_code, error_of, execute, make_container, result_of, value_of

SUGGESTION = "; return JSON or bytes, or write files to $FAIRLEAD_OUTPUT"


def returning(folder: Path, result: str) -> tuple[int, str, str]:
    """Call a function that returns the value of an expression."""
    return call_code(folder, f"import array\nclass Tensor: pass\ndef main():\n    return {result}\n")


@pytest.mark.parametrize(
    ("result", "kept"),
    [
        ("None", None),
        ("{'loss': 0.5, 'names': ('é', '\\n')}", {"loss": 0.5, "names": ["é", "\n"]}),
        ("10**30", 10**30),
        ("{1: True, None: 2.5}", {"1": True, "null": 2.5}),
        ("'x' * (256 * 1024 - 2)", "x" * (256 * 1024 - 2)),
    ],
)
def test_small_json_is_kept_as_it_is(tmp_path: Path, result: str, kept: Any) -> None:
    assert returning(tmp_path, result) == (0, "", "")
    assert value_of(tmp_path) == kept
    assert list((tmp_path / "home" / "output").iterdir()) == []


def test_large_json_is_a_file_of_the_output(tmp_path: Path) -> None:
    assert returning(tmp_path, "['é' * 128 * 1024]") == (0, "", "")
    data = (tmp_path / "home" / "output" / "result.json").read_bytes()
    assert json.loads(data) == ["é" * 128 * 1024]
    assert result_of(tmp_path) == {"kind": "file", "path": "result.json", "type": "json", "size": len(data)}


@pytest.mark.parametrize(
    ("result", "kept"),
    [
        ("b'\\x00\\xff'", b"\x00\xff"),
        ("b''", b""),
        ("bytearray(b'abc')", b"abc"),
        ("memoryview(b'abcdef')[::2]", b"ace"),
        ("memoryview(array.array('i', [1, 2]))", b"\x01\0\0\0\x02\0\0\0"),
        ("bytes(1000) * 1000", bytes(1_000_000)),
    ],
)
def test_bytes_are_a_file_of_the_output(tmp_path: Path, result: str, kept: bytes) -> None:
    assert returning(tmp_path, result) == (0, "", "")
    assert (tmp_path / "home" / "output" / "result.bin").read_bytes() == kept
    assert result_of(tmp_path) == {"kind": "file", "path": "result.bin", "type": "bytes", "size": len(kept)}


@pytest.mark.parametrize(
    ("result", "said"),
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
def test_a_result_that_is_not_json_is_a_failure_that_says_where(tmp_path: Path, result: str, said: str) -> None:
    code, _, err = returning(tmp_path, result)
    message = f"the result of the function is not JSON: {said}{SUGGESTION}"
    assert (code, err) == (1, f"{message}\n")
    assert error_of(tmp_path) == {"type": "ResultNotJSON", "message": message, "traceback": ""}


@pytest.mark.parametrize(
    "result", ["'\\ud800'", "10**5000", "__import__('functools').reduce(lambda a, _: [a], range(10**5), [])"]
)
def test_text_that_nobody_could_read_again_is_not_json(tmp_path: Path, result: str) -> None:
    code, _, err = returning(tmp_path, result)
    assert code == 1
    assert err.startswith("the result of the function is not JSON: ")
    assert error_of(tmp_path)["type"] == "ResultNotJSON"


def test_the_output_folder_is_there_and_may_be_elsewhere(tmp_path: Path) -> None:
    code = "import os\ndef main():\n    print(os.listdir(os.environ['FAIRLEAD_OUTPUT']))\n    return b'x'\n"
    bootstrap = make_container(tmp_path, {"a.py": code}, "a.py", handler="main")
    assert execute(tmp_path, bootstrap, FAIRLEAD_OUTPUT="else/where") == (0, "[]\n", "")
    assert (tmp_path / "else" / "where" / "result.bin").read_bytes() == b"x"


def test_a_container_that_is_started_again_leaves_nothing_of_its_first_life(tmp_path: Path) -> None:
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

"""Typos in handlers and source files are reported before submission, without executing code."""

from pathlib import Path

import pytest

from fairlead.errors import Unreadable
from fairlead.sdk.functions import check_handler
from tests.cli.terminal import write

CODE = """
import os.path, json as reader
from helpers import imported, other as renamed

raise SystemExit("this file is executed")

def main(): ...
async def later(): ...
class Model: ...
assigned = lambda: [inside_a_list for inside_a_list in ()]
one, (two, *three) = 1, (2, 3)
annotated: int = 1
only_annotated: int
if True:
    def conditional(): ...
else:
    def otherwise(): ...
try:
    import fast as tried
except ImportError:
    tried_otherwise = None
with open("x") as opened:
    pass
def outer():
    def inner(): ...
"""
DEFINED = ["main", "later", "Model", "assigned", "one", "two", "three", "annotated", "conditional", "otherwise", "os"]
DEFINED += ["reader", "imported", "renamed", "tried", "tried_otherwise", "opened"]


@pytest.mark.parametrize("name", DEFINED)
@pytest.mark.parametrize("module", ["", "train:"])
def test_top_level_names_are_accepted(tmp_path: Path, module: str, name: str) -> None:
    write(tmp_path, {"train.py": CODE})
    check_handler(tmp_path / "train.py", f"{module}{name}")


@pytest.mark.parametrize("name", ["inner", "inside_a_list", "only_annotated", "other", "json", "helpers", "Main"])
def test_other_names_are_rejected(tmp_path: Path, name: str) -> None:
    write(tmp_path, {"train.py": CODE})
    with pytest.raises(Unreadable, match=f"no function '{name}' in .*train.py"):
        check_handler(tmp_path / "train.py", name)


@pytest.mark.parametrize(
    ("code", "handler", "hint"),
    [
        ("def train(): ...\n", "trian", "did you mean train?"),
        ("def one(): ...\n", "train", "the file defines one"),
        ("", "train", "define train at the top level"),
        ("def _private(): ...\n", "train", "define train at the top level"),
    ],
)
def test_the_hint_contains_the_nearest_names(tmp_path: Path, code: str, handler: str, hint: str) -> None:
    write(tmp_path, {"a.py": code})
    with pytest.raises(Unreadable) as caught:
        check_handler(tmp_path / "a.py", handler)
    assert caught.value.hint == hint


@pytest.mark.parametrize("code", ["from lib import *\n", "def __getattr__(name): ...\n"])
def test_modules_with_dynamic_names_accept_any_handler(tmp_path: Path, code: str) -> None:
    write(tmp_path, {"a.py": code})
    check_handler(tmp_path / "a.py", "anything")


@pytest.mark.parametrize("handler", ["main", "a:main", None])
def test_syntax_errors_are_reported_with_their_line(tmp_path: Path, handler: str | None) -> None:
    write(tmp_path, {"a.py": "x = 1\ndef main(:\n    pass\n"})
    with pytest.raises(Unreadable, match=r"a\.py, line 2: invalid syntax") as caught:
        check_handler(tmp_path / "a.py", handler)
    assert caught.value.hint == "fix this line: def main(:"


@pytest.mark.parametrize(
    "content", [b"\0", b"\xff\xfe = 1", b"(" * 10_000, b"# coding: nowhere\n", b"-" * 100_000 + b"1"]
)
def test_files_that_are_not_python_are_rejected(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.py").write_bytes(content)
    with pytest.raises(Unreadable, match=r"a\.py"):
        check_handler(tmp_path / "a.py", "main")


@pytest.mark.parametrize(
    ("handler", "message"),
    [
        ("pipeline.steps:run", None),
        ("pipeline:start", None),
        ("torch.distributed:run", None),
        ("pipeline.steps:rum", "no function 'rum' in .*steps.py"),
        ("pipeline:run", "no function 'run' in .*__init__.py"),
        ("run", "is a folder, but the handler 'run' does not name a module"),
        (None, "is a folder without __main__.py"),
    ],
)
def test_the_handler_of_a_folder_is_looked_up_in_its_module(
    tmp_path: Path, handler: str | None, message: str | None
) -> None:
    write(tmp_path, {"src/pipeline/__init__.py": "start = print\n", "src/pipeline/steps.py": "def run(): ...\n"})
    if message is None:
        check_handler(tmp_path / "src", handler)
    else:
        with pytest.raises(Unreadable, match=message):
            check_handler(tmp_path / "src", handler)


def test_unusual_but_valid_code_is_accepted(tmp_path: Path) -> None:
    chain = "if 0: pass\n" + "elif 0: pass\n" * 500
    write(tmp_path, {"a.py": f"x = '\\d' {'+ 1' * 500}\n{chain}def main(): ...\n"})
    check_handler(tmp_path / "a.py", "main")


def test_other_scripts_are_not_parsed(tmp_path: Path) -> None:
    write(tmp_path, {"run.sh": "echo (\n", "src/__main__.py": "print(1)\n"})
    check_handler(tmp_path / "run.sh", None)
    check_handler(tmp_path / "src", None)
    with pytest.raises(Unreadable, match="is not a Python file"):
        check_handler(tmp_path / "run.sh", "main")
    with pytest.raises(Unreadable, match="does not exist"):
        check_handler(tmp_path / "nowhere.py", "main")

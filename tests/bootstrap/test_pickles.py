"""Pickled functions: packed by one program, and called by another that lacks its modules."""

import hashlib
import json
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest

from fairlead.source_code import ArchiveEntry, pack_entries
from tests.bootstrap.containers import error_of, execute, mount, value_of
from tests.cli.terminal import write

HELPERS = {
    "helper.py": "from lib.more import FACTOR\nSETTINGS = {'shift': 1}\ndef scale(n):\n    return n * FACTOR\n",
    "lib/__init__.py": "",
    "lib/more.py": "FACTOR = 10\n",
}
PACK = """
import json, pathlib
from fairlead.sdk.functions import pack_function
packed = pack_function(main)
pathlib.Path("packed.tar.gz").write_bytes(packed.archive)
fields = {"source": packed.source, "handler": packed.handler, "digest": packed.digest}
print(json.dumps(fields))
"""


def pack_script(folder: Path, code: str, cwd: Path | None = None) -> dict[str, Any]:
    """Pack the function `main` of a script in a separate process."""
    write(folder, {"script.py": code + PACK, **HELPERS})
    command = [sys.executable, str(folder / "script.py")]
    process = subprocess.run(command, cwd=cwd or folder, capture_output=True, text=True, timeout=60, check=True)
    packed: dict[str, Any] = json.loads(process.stdout)
    return packed


@pytest.mark.parametrize(
    ("code", "result"),
    [
        ("def main(n):\n    return n + 1\n", 5),
        ("import helper\ndef main(n):\n    return helper.scale(n) + helper.SETTINGS['shift']\n", 41),
        ("from helper import scale\ndef main(n):\n    return scale(n)\n", 40),
        ("import json\nasync def main(n):\n    return json.dumps(n)\n", "4"),
        ("k = 3\nmain = lambda n: n * k\n", 12),
        ("class Adder:\n    def __call__(self, n):\n        return n + 2\nmain = Adder()\n", 6),
        ("def outer():\n    k = 7\n    def main(n):\n        return n * k\n    return main\nmain = outer()\n", 28),
    ],
)
def test_a_pickled_function_is_called_with_its_dependencies(tmp_path: Path, code: str, result: Any) -> None:
    packed = pack_script(tmp_path / "author", code)
    bootstrap = mount(tmp_path, (tmp_path / "author" / "packed.tar.gz").read_bytes(), **packed, inputs={"n": 4})
    assert execute(tmp_path, bootstrap) == (0, "", "")
    assert value_of(tmp_path) == result


def test_helper_modules_are_packed_from_any_working_folder(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    code = "from helper import scale\ndef main(n):\n    return scale(n)\n"
    packed = pack_script(tmp_path / "author", code, cwd=tmp_path / "elsewhere")
    archive = (tmp_path / "elsewhere" / "packed.tar.gz").read_bytes()
    assert execute(tmp_path, mount(tmp_path, archive, **packed, inputs={"n": 4}))[0] == 0
    assert value_of(tmp_path) == 40


def test_another_python_version_is_reported(tmp_path: Path) -> None:
    packed = pack_script(tmp_path / "author", "def main():\n    pass\n")
    with tarfile.open(tmp_path / "author" / "packed.tar.gz") as archive:
        files = {name: archive.extractfile(name).read() for name in archive.getnames()}  # type: ignore[union-attr]
    repacked = pack_entries(
        ArchiveEntry(name, content) for name, content in {**files, ".python-version": b"3.7"}.items()
    )
    call = packed | {"digest": f"sha256:{hashlib.sha256(repacked).hexdigest()}"}
    bootstrap = mount(tmp_path, repacked, **call)
    version = "{}.{}".format(*sys.version_info)
    message = f"pickled with Python 3.7, but this is Python {version}: use an image with Python 3.7, or a source file"
    assert execute(tmp_path, bootstrap) == (1, "", f"{message}\n")
    assert error_of(tmp_path) == {"type": "PythonMismatch", "message": message, "traceback": ""}


def test_failures_of_pickled_functions_are_reported(tmp_path: Path) -> None:
    packed = pack_script(tmp_path / "author", "def main(n):\n    return 1 / n\n") | {"inputs": {"n": 0}}
    bootstrap = mount(tmp_path, (tmp_path / "author" / "packed.tar.gz").read_bytes(), **packed)
    assert execute(tmp_path, bootstrap)[0] == 1
    assert error_of(tmp_path)["type"] == "ZeroDivisionError"
    write(
        bootstrap.parent,
        {"call.json": json.dumps({**json.loads((bootstrap.parent / "call.json").read_text()), "inputs": {}})},
    )
    assert execute(tmp_path, bootstrap)[0] == 1
    assert error_of(tmp_path)["message"].endswith("its signature is main(n)")

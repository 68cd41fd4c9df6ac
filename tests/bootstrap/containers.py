"""A container for tests: the bootstrap in a separate process, next to call.json and the code."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import fairlead.in_container.bootstrap
import fairlead.in_container.function_server
from fairlead.source_code import pack_path
from tests.cli.terminal import write

BOOTSTRAP = Path(fairlead.in_container.bootstrap.__file__)
FUNCTION_SERVER = Path(fairlead.in_container.function_server.__file__)
MOUNTED = "mounted"


def make_container(folder: Path, files: dict[str, str], source: str | None, **call: Any) -> Path:
    """The folder of a container: the bootstrap, call.json, and the code."""
    work = folder / "work"
    write(work, files)
    return mount(folder, pack_path(work / source, work).archive if source else b"", source=source, **call)


def mount(folder: Path, archive: bytes, **call: Any) -> Path:
    """Mount code that is already packed."""
    mounted = folder / MOUNTED
    mounted.mkdir()
    for file in (BOOTSTRAP, FUNCTION_SERVER):
        shutil.copy(file, mounted / file.name)
    (mounted / "code.tar.gz").write_bytes(archive)
    complete_call: dict[str, Any] = {"action": "job", "source": None, "handler": None, "command": [], "inputs": {}}
    complete_call |= {"port": None, "digest": f"sha256:{hashlib.sha256(archive).hexdigest()}", **call}
    (mounted / "call.json").write_text(json.dumps(complete_call), "utf-8")
    return mounted / "bootstrap.py"


def start(
    folder: Path, bootstrap: Path, *args: str, python: str = sys.executable, **envs: str
) -> subprocess.Popen[str]:
    """Start a container's process."""
    environment = {**os.environ, "FAIRLEAD_HOME": str(folder / "home"), "PYTHONDONTWRITEBYTECODE": "1", **envs}
    command = [python, "-u", str(bootstrap), *args]
    return subprocess.Popen(
        command, cwd=folder, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


def execute(
    folder: Path, bootstrap: Path, *args: str, python: str = sys.executable, **envs: str
) -> tuple[int, str, str]:
    """Run a container's process, and return its exit code, stdout and stderr."""
    process = start(folder, bootstrap, *args, python=python, **envs)
    out, err = process.communicate(timeout=30)
    return process.returncode, out, err


def call_code(folder: Path, code: str, **inputs: Any) -> tuple[int, str, str]:
    """Call `main` of a file with this code."""
    return execute(folder, make_container(folder, {"a.py": code}, "a.py", handler="main", inputs=inputs))


def result_of(folder: Path) -> Any:
    """The content of result.json."""
    return json.loads((folder / "home" / "result.json").read_text("utf-8"))


def value_of(folder: Path) -> Any:
    """A result that is a small JSON value."""
    result = result_of(folder)
    assert set(result) == {"kind", "value"}
    assert result["kind"] == "json"
    return result["value"]


def error_of(folder: Path) -> dict[str, str]:
    """The content of error.json. A failed run has no result."""
    assert not (folder / "home" / "result.json").exists()
    error: dict[str, str] = json.loads((folder / "home" / "error.json").read_text("utf-8"))
    assert set(error) == {"type", "message", "traceback"}
    return error

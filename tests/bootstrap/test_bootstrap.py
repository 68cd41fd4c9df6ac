"""The bootstrap in a separate process, as in a container."""

import ast
import base64
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.bootstrap.containers import BOOTSTRAP, error_of, execute, make_container, value_of
from tests.bootstrap.pods import SIDECAR
from tests.cli.terminal import preview, write

# All Python versions installed next to this one, including those from pyenv.
BASE_PREFIX = Path(sys.base_prefix)
CANDIDATES = [*BASE_PREFIX.glob("bin/python3.*"), *BASE_PREFIX.parent.glob("3.*/bin/python3.*")]
PYTHONS = sorted(str(path) for path in CANDIDATES if re.fullmatch(r"python3\.([89]|\d\d)", path.name))
SLOW_MODULES = {
    "asyncio",
    "hashlib",
    "http",
    "inspect",
    "pickle",
    "runpy",
    "socketserver",
    "tarfile",
    "traceback",
    "typing",
}


def test_a_handler_is_called_with_the_inputs_and_its_result_stored(tmp_path: Path) -> None:
    code = "def main(epochs, names):\n    print('training')\n    return {'epochs': epochs + 1, 'names': names}\n"
    inputs = {"epochs": 3, "names": ["é", None, True]}
    bootstrap = make_container(tmp_path, {"train.py": code}, "train.py", handler="main", inputs=inputs)
    assert execute(tmp_path, bootstrap) == (0, "training\n", "")
    assert value_of(tmp_path) == {"epochs": 4, "names": ["é", None, True]}


def test_a_folder_without_a_handler_runs_its_main_module(tmp_path: Path) -> None:
    code = "import sys, lib\nif __name__ == '__main__':\n    print(sys.argv[1:], lib.x)\n"
    bootstrap = make_container(tmp_path, {"src/__main__.py": code, "src/lib.py": "x = 7\n"}, "src")
    assert execute(tmp_path, bootstrap, "--epochs", "3") == (0, "['--epochs', '3'] 7\n", "")


def test_a_command_runs_in_the_code_folder_with_its_arguments(tmp_path: Path) -> None:
    files = {"src/show.py": "import os, sys\nprint(sorted(os.listdir()), sys.argv[1:])\n"}
    command = [sys.executable, "src/show.py", "one"]
    bootstrap = make_container(tmp_path, files, "src", command=command)
    assert execute(tmp_path, bootstrap, "two") == (0, "['src'] ['one', 'two']\n", "")


def test_a_missing_command_is_reported_in_one_line(tmp_path: Path) -> None:
    bootstrap = make_container(tmp_path, {"a.py": ""}, "a.py", command=["nowhere-to-be-found"])
    code, _, err = execute(tmp_path, bootstrap)
    assert code == 1
    assert err == "cannot run 'nowhere-to-be-found': No such file or directory\n"


@pytest.mark.parametrize("source", ["train.py", "src/train.py"])
def test_a_script_runs_from_any_folder(tmp_path: Path, source: str) -> None:
    code = "import sys\nprint(__name__, sys.argv[1:])\n"
    bootstrap = make_container(tmp_path, {source: code}, source)
    assert execute(tmp_path, bootstrap, "a b") == (0, "__main__ ['a b']\n", "")
    assert not (tmp_path / "home" / "result.json").exists()


@pytest.mark.parametrize("handler", ["main", "train:main"])
@pytest.mark.parametrize("source", ["train.py", "src/train.py"])
def test_a_handler_is_found_in_any_folder(tmp_path: Path, source: str, handler: str) -> None:
    bootstrap = make_container(tmp_path, {source: "def main():\n    return 'found'\n"}, source, handler=handler)
    assert execute(tmp_path, bootstrap) == (0, "", "")
    assert value_of(tmp_path) == "found"


def test_a_handler_of_a_folder_is_a_module_and_a_function(tmp_path: Path) -> None:
    files = {
        "src/pipeline/__init__.py": "",
        "src/pipeline/steps.py": "import helper\ndef run(n):\n    return helper.f(n)\n",
    }
    files["src/helper.py"] = "def f(n):\n    return n * 2\n"
    bootstrap = make_container(tmp_path, files, "src", handler="pipeline.steps:run", inputs={"n": 21})
    assert execute(tmp_path, bootstrap) == (0, "", "")
    assert value_of(tmp_path) == 42


@pytest.mark.parametrize("name", ["json", "code", "types", "queue", "my-train", "bootstrap"])
def test_a_file_may_have_the_name_of_a_python_module(tmp_path: Path, name: str) -> None:
    source = f"{name}.py"
    bootstrap = make_container(tmp_path, {source: "def main():\n    return 'mine'\n"}, source, handler="main")
    assert execute(tmp_path, bootstrap) == (0, "", "")
    assert value_of(tmp_path) == "mine"


def test_changed_code_does_not_run(tmp_path: Path) -> None:
    bootstrap = make_container(tmp_path, {"a.py": "print('ran')"}, "a.py", digest="sha256:0000")
    code, out, err = execute(tmp_path, bootstrap)
    assert (code, out) == (1, "")
    assert err.startswith("the code was changed: expected sha256:0000, found sha256:")


def test_a_function_without_a_source_is_reported(tmp_path: Path) -> None:
    code, _, err = execute(tmp_path, make_container(tmp_path, {}, None))
    assert code == 1
    assert "Traceback" not in err
    assert "no source" in err


def test_a_script_sets_its_exit_code(tmp_path: Path) -> None:
    bootstrap = make_container(tmp_path, {"a.py": "import sys\nsys.exit(7)\n"}, "a.py")
    assert execute(tmp_path, bootstrap)[0] == 7


def test_a_restarted_container_runs_again(tmp_path: Path) -> None:
    bootstrap = make_container(tmp_path, {"a.py": "def main():\n    return 1\n"}, "a.py", handler="main")
    assert [execute(tmp_path, bootstrap)[0] for _ in range(2)] == [0, 0]


@pytest.mark.parametrize("source", ["train.py", "src/train.py", "src"])
def test_the_manifests_of_a_preview_can_be_executed(tmp_path: Path, source: str) -> None:
    write(tmp_path, dict.fromkeys(("train.py", "src/train.py"), "def main(n):\n    return n + 1\n"))
    request = f"function: {{name: a, source: {source}, handler: 'train:main'}}\ninputs: {{n: 41}}"
    plan = json.loads(preview(tmp_path, request, "-o", "json").out)
    (code,) = [manifest for manifest in plan["manifests"] if manifest["kind"] == "ConfigMap"]
    write(tmp_path / "mounted", code["data"])
    (tmp_path / "mounted" / "code.tar.gz").write_bytes(base64.b64decode(code["binaryData"]["code.tar.gz"]))
    assert execute(tmp_path, tmp_path / "mounted" / "bootstrap.py") == (0, "", "")
    assert value_of(tmp_path) == 42


def test_a_function_may_be_asynchronous(tmp_path: Path) -> None:
    code = "import asyncio\nasync def main(n):\n    await asyncio.sleep(0)\n    return n + 1\n"
    bootstrap = make_container(tmp_path, {"a.py": code}, "a.py", handler="main", inputs={"n": 1})
    assert execute(tmp_path, bootstrap) == (0, "", "")
    assert value_of(tmp_path) == 2


def test_a_handler_module_may_have_the_name_of_a_python_module(tmp_path: Path) -> None:
    bootstrap = make_container(
        tmp_path, {"json.py": "def main():\n    return 'mine'\n"}, "json.py", handler="json:main"
    )
    assert execute(tmp_path, bootstrap) == (0, "", "")
    assert value_of(tmp_path) == "mine"


def test_archives_with_long_and_unicode_names_are_unpacked(tmp_path: Path) -> None:
    long = "/".join(["deep" * 10] * 4)
    files = {f"src/{long}/a.py": "", "src/é.py": "def f():\n    return 1\n", "src/b.py": "from é import f\n"}
    bootstrap = make_container(tmp_path, files, "src", handler="b:f")
    assert execute(tmp_path, bootstrap) == (0, "", "")
    assert (tmp_path / "home" / "code" / "src" / long / "a.py").exists()


@pytest.mark.parametrize("extra", ["", "é.txt"])
def test_programs_stay_executable(tmp_path: Path, extra: str) -> None:
    write(tmp_path / "work", {"src/run.sh": "#!/bin/sh\necho ran\n", **({f"src/{extra}": ""} if extra else {})})
    (tmp_path / "work" / "src" / "run.sh").chmod(0o700)
    bootstrap = make_container(tmp_path, {}, "src", command=["src/run.sh"])
    assert execute(tmp_path, bootstrap) == (0, "ran\n", "")


def test_child_processes_can_import_the_function(tmp_path: Path) -> None:
    """Data loaders start processes, which import the function's file by its name."""
    code = """
import multiprocessing

def double(n):
    return n * 2

def main():
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.map(double, [1, 2])
"""
    bootstrap = make_container(tmp_path, {"train.py": code}, "train.py", handler="main")
    assert execute(tmp_path, bootstrap) == (0, "", "")
    assert value_of(tmp_path) == [2, 4]


def test_calling_a_function_loads_few_modules(tmp_path: Path) -> None:
    code = "import sys\nloaded = list(sys.modules)\ndef main():\n    return loaded\n"
    bootstrap = make_container(tmp_path, {"train.py": code}, "train.py", handler="main")
    assert execute(tmp_path, bootstrap)[0] == 0
    command = [sys.executable, "-c", "import json, sys; print(*sys.modules)"]
    default_modules = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True).stdout.split()
    assert set(value_of(tmp_path)) & SLOW_MODULES - set(default_modules) == set()


@pytest.mark.parametrize("python", sorted(set(PYTHONS)))
def test_the_bootstrap_works_with_every_installed_python(tmp_path: Path, python: str) -> None:
    code = "import lib\nasync def main(n):\n    return lib.f(n)\ndef fail():\n    raise ValueError('é')\n"
    files = {"src/a.py": code, "src/lib.py": "def f(n):\n    return n + 1\n", "src/ü.txt": ""}
    bootstrap = make_container(tmp_path, files, "src", handler="a:main", inputs={"n": 1})
    assert execute(tmp_path, bootstrap, python=python) == (0, "", "")
    assert value_of(tmp_path) == 2
    call = json.loads((bootstrap.parent / "call.json").read_text("utf-8"))
    for handler, inputs, kind in (("a:fail", {}, "ValueError"), ("a:main", {"m": 1}, "InputsMismatch")):
        write(bootstrap.parent, {"call.json": json.dumps({**call, "handler": handler, "inputs": inputs})})
        exit_code, _, err = execute(tmp_path, bootstrap, python=python)
        assert (exit_code, "bootstrap.py" in err, error_of(tmp_path)["type"]) == (1, False, kind)


@pytest.mark.parametrize("file", [BOOTSTRAP, SIDECAR], ids=lambda file: file.stem)
def test_the_bootstrap_is_python_3_8_and_the_standard_library_only(file: Path) -> None:
    text = file.read_text("utf-8")
    tree = ast.parse(text, feature_version=(3, 8))
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    imported |= {str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert {name.split(".")[0] for name in imported} <= set(sys.stdlib_module_names)
    # Names added after 3.8, and types that cannot be subscripted or joined there, except in annotations, which
    # are not evaluated.
    assert "from __future__ import annotations\n" in text
    newer = ("removeprefix", "removesuffix", "tomllib", "zoneinfo", "graphlib", "pairwise", "batched", "StrEnum")
    assert [name for name in newer if name in text] == []
    in_annotations = {id(inner) for node in _annotations(tree) for inner in ast.walk(node)}
    evaluated = [node for node in ast.walk(tree) if isinstance(node, ast.Subscript) and id(node) not in in_annotations]
    subscripted = [node.value.id for node in evaluated if isinstance(node.value, ast.Name)]
    assert [name for name in subscripted if name in ("dict", "list", "tuple", "set", "type")] == []
    assert not [node for node in ast.walk(tree) if isinstance(node, ast.Match)]


def _annotations(tree: ast.Module) -> Iterator[ast.expr]:
    for node in ast.walk(tree):
        if isinstance(node, ast.arg | ast.AnnAssign) and node.annotation:
            yield node.annotation
        elif isinstance(node, ast.FunctionDef) and node.returns:
            yield node.returns

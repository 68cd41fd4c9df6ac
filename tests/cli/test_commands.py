"""The CLI's help, version and invalid arguments."""

import subprocess
import sys
from pathlib import Path

import pytest

import fairlead
from tests.cli.terminal import run

FAIRLEAD = str(Path(sys.executable).parent / "fairlead")


@pytest.mark.parametrize("args", [(), ("--help",), ("-h",)])
def test_help_lists_the_commands(tmp_path: Path, args: tuple[str, ...]) -> None:
    result = run(tmp_path, *args)
    assert (result.code, result.err) == (0, "")
    assert result.out.startswith("Usage: fairlead ")
    assert all(command in result.out for command in ("preview", "compute"))


def test_the_version_is_that_of_the_package(tmp_path: Path) -> None:
    assert run(tmp_path, "--version").out == f"{fairlead.__version__}\n"


def test_help_of_preview_lists_every_option_without_internals(tmp_path: Path) -> None:
    result = run(tmp_path, "preview", "--help")
    options = ("--compute", "--templates", "--policy", "--defaults", "--secrets", "--project", "--output", "-o")
    assert result.code == 0
    assert [option for option in options if option not in result.out] == []
    assert [word for word in ("--empty", "[default: ()]", "--no-", "None") if word in result.out] == []


def test_help_of_compute_lists_lint(tmp_path: Path) -> None:
    assert "lint" in run(tmp_path, "compute").out
    assert "FOLDER" in run(tmp_path, "compute", "lint", "--help").out


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("previw",), "previw"),
        (("preview",), "REQUEST"),
        (("preview", "r.yaml", "--profile", "x"), "--profile"),
        (("preview", "r.yaml", "--comput", "x"), "--compute"),
        (("preview", "r.yaml", "-o", "xml"), "xml"),
        (("preview", "r.yaml", "--compute"), "--compute"),
        (("preview", "r.yaml", "other.yaml"), "other.yaml"),
        (("compute", "lint"), "FOLDER"),
        (("compute", "list"), "list"),
    ],
)
def test_invalid_arguments_are_named_on_stderr(tmp_path: Path, args: tuple[str, ...], message: str) -> None:
    result = run(tmp_path, *args)
    assert (result.code, result.out) == (2, "")
    assert message in result.err


def test_the_installed_command_works(tmp_path: Path) -> None:
    process = subprocess.run([FAIRLEAD, "--version"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert process.stdout == f"{fairlead.__version__}\n"


def test_starting_the_command_does_not_load_large_packages(tmp_path: Path) -> None:
    check = "import sys, fairlead.cli; sys.exit(str({'pydantic', 'yaml', 'fastapi', 'sqlalchemy'} & set(sys.modules)))"
    process = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=False)
    assert process.stderr.strip() == "set()"


def test_help_of_shared_commands_names_the_kind_of_object(tmp_path: Path) -> None:
    assert "List projects." in run(tmp_path, "projects", "--help").out
    assert "Show a compute resource." in run(tmp_path, "compute", "show", "--help").out
    assert "LARGEST FREE" in run(tmp_path, "nodes", "capacity", "--help").out

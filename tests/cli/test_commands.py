"""The commands themselves: help, version, and words that mean nothing."""

import subprocess
import sys
from pathlib import Path

import pytest

import fairlead
from tests.cli.terminal import run

FAIRLEAD = str(Path(sys.executable).parent / "fairlead")


@pytest.mark.parametrize("words", [(), ("--help",), ("-h",)])
def test_alone_and_with_help_it_lists_the_commands(tmp_path: Path, words: tuple[str, ...]) -> None:
    answer = run(tmp_path, *words)
    assert (answer.code, answer.err) == (0, "")
    assert answer.out.startswith("Usage: fairlead ")
    assert all(command in answer.out for command in ("preview", "compute"))


def test_the_version_is_the_packages(tmp_path: Path) -> None:
    assert run(tmp_path, "--version").out == f"{fairlead.__version__}\n"


def test_help_of_preview_explains_every_option_and_shows_no_machinery(tmp_path: Path) -> None:
    answer = run(tmp_path, "preview", "--help")
    options = ("--compute", "--templates", "--policy", "--defaults", "--secrets", "--project", "--output", "-o")
    assert answer.code == 0
    assert [option for option in options if option not in answer.out] == []
    assert [word for word in ("--empty", "[default: ()]", "--no-", "None") if word in answer.out] == []


def test_help_of_compute_lists_lint(tmp_path: Path) -> None:
    assert "lint" in run(tmp_path, "compute").out
    assert "FOLDER" in run(tmp_path, "compute", "lint", "--help").out


@pytest.mark.parametrize(
    ("words", "said"),
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
def test_words_that_mean_nothing_are_named_on_stderr(tmp_path: Path, words: tuple[str, ...], said: str) -> None:
    answer = run(tmp_path, *words)
    assert (answer.code, answer.out) == (2, "")
    assert said in answer.err


def test_the_installed_command_answers(tmp_path: Path) -> None:
    ended = subprocess.run([FAIRLEAD, "--version"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert ended.stdout == f"{fairlead.__version__}\n"


def test_starting_the_command_does_not_load_what_only_the_server_or_a_plan_needs(tmp_path: Path) -> None:
    check = "import sys, fairlead.cli; sys.exit(str({'pydantic', 'yaml', 'fastapi', 'sqlalchemy'} & set(sys.modules)))"
    ended = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=False)
    assert ended.stderr.strip() == "set()"

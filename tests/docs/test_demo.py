"""`make demo` and the examples: they run as they are, and are pleasant to read."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import PAGES, ROOT

WIDEST = 100
EXAMPLES = sorted(path for path in (ROOT / "examples").rglob("*.yaml"))


@pytest.fixture(scope="module")
def printed() -> str:
    """What `make demo` prints, from anywhere."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("FAIRLEAD_")}
    environment = kept | {"PYTHONWARNINGS": "error"}
    command = [sys.executable, str(ROOT / "examples" / "demo.py")]
    ended = subprocess.run(command, cwd="/", env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert ended.stderr == ""
    return ended.stdout


def test_the_demo_shows_what_is_refused_and_then_a_server(printed: str) -> None:
    *_, refused, served = printed.split("=== ")
    assert re.search(r"^\d violations$", refused, re.MULTILINE)
    assert refused.count("->") >= 5
    assert "9 changes, 0 unchanged" in served
    assert "the compute resource 1xa100 wins" in served


def test_the_tables_of_the_demo_fit_a_terminal(printed: str) -> None:
    tables = [line for line in printed.splitlines() if re.match(r"  \S+  ", line) or re.match(r" {20}", line)]
    assert len(tables) > 50
    assert [line for line in tables if len(line) > WIDEST] == []


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_every_example_is_used(example: Path, printed: str) -> None:
    used = "\n".join([printed, *(page.read_text("utf-8") for page in PAGES)])
    assert str(example.relative_to(ROOT)) in used

"""`make demo` and the examples run, and their output is readable."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import PAGES, ROOT

MAX_WIDTH = 110
EXAMPLES = sorted(path for path in (ROOT / "examples").rglob("*.yaml"))


@pytest.fixture(scope="module")
def output(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The output of `make demo` from another folder, for a user with a configured server."""
    folder = tmp_path_factory.mktemp("demo")
    environment = os.environ | {
        "PYTHONWARNINGS": "error",
        "TMPDIR": str(folder),
        "FAIRLEAD_URL": "http://127.0.0.1:1",
        "FAIRLEAD_TOKEN": "fl_of_another_server",
    }
    command = [sys.executable, str(ROOT / "examples" / "demo.py")]
    process = subprocess.run(
        command, cwd="/", env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert process.returncode == 0, process.stdout + process.stderr
    assert process.stderr == ""
    assert list(folder.iterdir()) == []  # no data or server is left behind
    return process.stdout


def test_the_demo_trains_and_shows_the_log(output: str) -> None:
    section = _section(output, 2)
    assert 'profile="small"' in section
    assert "training two-moons on 1500 points" in section
    assert [int(epoch) for epoch in re.findall(r"^epoch +(\d+)  \[", section, re.MULTILINE)] == [*range(5, 41, 5)]
    assert "8 checkpoints in /checkpoints" in section


def test_the_secret_of_the_demo_is_masked(output: str) -> None:
    assert "signing in with ***\n" in output
    assert output.count("hf_for_no_other_eyes") == 1  # only where it is set


def test_the_demo_explains_values_and_overrides(output: str) -> None:
    section = _section(output, 3)
    assert re.search(r"resources\.mem\.requests +256Mi +compute resource small\n +overrides 6Gi \(request\)", section)
    for path in ("envs.MODEL_NAME", "secrets.HF_TOKEN", "volumes.checkpoints.mount_path"):
        assert f"  {path} " in section


def test_the_demo_shows_the_result_and_the_files(output: str) -> None:
    section = _section(output, 4)
    assert re.search(r"^result \{'loss': 0\.\d+, 'accuracy': 0\.9\d*\}$", section, re.MULTILINE)
    assert re.search(r"^file +model\.json \d+ bytes$", section, re.MULTILINE)
    assert re.search(r"^[0-9a-f]{32}  train +completed ", section, re.MULTILINE)


def test_the_demo_ends_with_a_rejected_request(output: str) -> None:
    section = _section(output, 5)
    assert "2 violations\n" in section
    assert "-> did you mean small?" in section


def test_the_demo_fits_a_terminal(output: str) -> None:
    assert [line for line in output.splitlines() if len(line) > MAX_WIDTH] == []


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_every_example_is_used(example: Path, output: str) -> None:
    texts = "\n".join([output, *(page.read_text("utf-8") for page in PAGES)])
    assert str(example.relative_to(ROOT)) in texts


def _section(output: str, number: int) -> str:
    return output.partition(f"=== {number}. ")[2].partition("\n=== ")[0]

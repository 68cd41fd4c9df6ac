"""Every reason that a run can have, and every setting of execution, is on its page."""

import re

import pytest

from fairlead.adapters.local.specifying import PASSED_ON
from fairlead.model.states import State
from fairlead.settings import CAPACITY
from tests.docs.pages import ROOT

PAGE = (ROOT / "docs" / "execution.md").read_text("utf-8")
SOURCES = ROOT / "src" / "fairlead"
TELLING = (
    *("core/lifecycle.py", "core/turns.py", "core/fitting/admission.py"),
    *(f"controllers/{name}.py" for name in ("ledgers", "runs", "works")),
    *(f"adapters/local/{name}.py" for name in ("executors", "outcomes", "sampling", "serving", "supervisor")),
    *(f"services/{name}.py" for name in ("runs", "submissions")),
    "core/idleness.py",
)
REASON = re.compile(r'(?<!== )"((?:[A-Z]+[a-z]+)+)"')
REASONS = sorted({reason for file in TELLING for reason in REASON.findall((SOURCES / file).read_text("utf-8"))})
ROWS = [line for line in PAGE.splitlines() if line.startswith("| `")]


def test_reasons_are_found_in_the_code() -> None:
    assert {"Claimed", "ExitCode", "NeverFits", "OOMKilled", "SecretMissing", "StopRequested"} <= set(REASONS)


@pytest.mark.parametrize("reason", REASONS)
def test_a_reason_is_in_the_table(reason: str) -> None:
    assert any(f"`{reason}`" in row for row in ROWS)


def test_the_table_has_no_reason_that_nobody_gives() -> None:
    listed = {
        word for row in ROWS if row.split("`")[1] in list(State) for word in REASON.findall(row.replace("`", '"'))
    }
    assert sorted(listed) == REASONS


@pytest.mark.parametrize("state", State)
def test_a_state_is_in_the_table(state: State) -> None:
    assert any(row.startswith(f"| `{state}` ") for row in ROWS)


@pytest.mark.parametrize("word", [*CAPACITY, *PASSED_ON])
def test_what_can_be_said_of_the_machine_is_named(word: str) -> None:
    assert f"`{word}`" in PAGE

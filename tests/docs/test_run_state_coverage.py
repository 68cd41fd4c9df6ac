"""Run states and reasons are in docs/users/run-states.md, the local executor in docs/admins/local-execution.md."""

import re

from fairlead.adapters.local.allocation import INHERITED_VARIABLES
from fairlead.model.runs import State
from fairlead.settings import CAPACITY
from tests.docs.pages import ROOT

STATES = (ROOT / "docs" / "users" / "run-states.md").read_text("utf-8")
LOCAL = (ROOT / "docs" / "admins" / "local-execution.md").read_text("utf-8")
SOURCES = ROOT / "src" / "fairlead"
FILES_WITH_REASONS = (
    *("lifecycle/lifecycle.py", "scheduling/admission.py", "scheduling/queue_order.py", "services/runs/runs.py"),
    *(f"controllers/{name}.py" for name in ("launch_specs", "run_state", "runs")),
    *(f"adapters/local/{name}.py" for name in ("executor", "outcomes", "sampling", "supervisor")),
)
REASON = re.compile(r'(?<!== )"((?:[A-Z]+[a-z]+)+)"')
REASONS = sorted(
    {reason for file in FILES_WITH_REASONS for reason in REASON.findall((SOURCES / file).read_text("utf-8"))}
)
ROWS = [line for line in STATES.splitlines() if line.startswith("| `")]


def test_reasons_are_found_in_the_code() -> None:
    assert {"Claimed", "ExitCode", "NeverFits", "OOMKilled", "SecretMissing", "StopRequested"} <= set(REASONS)


def test_every_reason_is_in_the_table() -> None:
    missing = [reason for reason in REASONS if not any(f"`{reason}`" in row for row in ROWS)]
    assert not missing, "\n".join(missing)


def test_the_table_has_no_other_reasons() -> None:
    listed = {
        word for row in ROWS if row.split("`")[1] in list(State) for word in REASON.findall(row.replace("`", '"'))
    }
    assert sorted(listed) == REASONS


def test_every_state_is_in_the_table() -> None:
    missing = [state for state in State if not any(row.startswith(f"| `{state}` ") for row in ROWS)]
    assert not missing, "\n".join(missing)


def test_every_resource_and_variable_of_the_machine_is_documented() -> None:
    missing = [word for word in (*CAPACITY, *INHERITED_VARIABLES) if f"`{word}`" not in LOCAL]
    assert not missing, "\n".join(missing)

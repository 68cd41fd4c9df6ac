"""A malicious run cannot access another project's data by any attack."""

import os
from typing import Any

import pytest

from tests.processes.execution import find_processes, wait_for_end
from tests.security import intruders
from tests.security.intruders import ATTACKS
from tests.security.neighbors import INTRUDER, OURS, THEIRS, Neighbors

pytestmark = pytest.mark.skipif(os.getuid() != 0, reason="NOT TESTED: only root runs each run as a separate user")


@pytest.fixture(scope="module")
def findings(neighbors: Neighbors) -> Any:
    """An attacker's findings, by attack."""
    run = neighbors.submit(OURS, INTRUDER.read_text("utf-8"), inputs=dict(neighbors.known))
    ended = wait_for_end(run, 240)
    assert ended["state"] == "completed", f"{ended} {run.logs()}"
    return run.result


@pytest.mark.parametrize("attack", ATTACKS)
def test_malicious_run_finds_nothing(findings: Any, attack: str) -> None:
    assert findings[attack] == []


def test_same_search_with_access_finds_everything(neighbors: Neighbors) -> None:
    """Ensures that the attacks fail because access is denied, and not because there is nothing to find."""
    known, mark = dict(neighbors.known), neighbors.mark.encode()
    findings = {attack: list(ATTACKS[attack](mark, known)) for attack in ("read_files", "read_proc", "send_signals")}
    data, (running, finished) = neighbors.platform.server.data, neighbors.tenants
    home, volumes = f"{data}/runs/{running.id}/home", f"{data}/volumes/"
    assert {f"{home}/notes", f"{home}/tmp/notes", f"{home}/output/models/best model.bin"} <= set(findings["read_files"])
    assert {f"{data}/runs/{run.id}/log" for run in (running, finished)} <= set(findings["read_files"])
    assert [path for path in findings["read_files"] if path.startswith(volumes)]
    assert [path for path in findings["read_files"] if path.startswith(f"{data}/fairlead.db")]
    assert [path for path in findings["read_proc"] if path.endswith("/environ")]
    assert {str(pid) for pid in find_processes(running.id)} <= set(findings["send_signals"])
    inputs = {**known, "operations": _read_operations(known["operations"]), "tokens": [neighbors.tokens[THEIRS]]}
    urls = {line.split()[1] for line in ATTACKS["send_requests"](mark, inputs) if line.endswith(" 200")}
    for part in ("explain", "manifests", "files/models/best%20model.bin"):
        assert f"/api/v1/runs/{running.id}/{part}" in urls
    for part in ("logs", "result", "code"):
        assert f"/api/v1/runs/{finished.id}/{part}" in urls


def test_processes_of_a_run_inherit_no_sockets(neighbors: Neighbors) -> None:
    running, _ = neighbors.tenants
    pids = find_processes(running.id)
    assert pids
    for pid in pids:
        targets = [os.readlink(f"/proc/{pid}/fd/{number}") for number in os.listdir(f"/proc/{pid}/fd")]
        assert [target for target in targets if target.startswith("socket:")] == []


def test_secrets_of_the_server_are_not_readable_by_other_users(neighbors: Neighbors) -> None:
    data = neighbors.platform.server.data
    assert data.stat().st_mode & 0o077 == 0
    for name in ("token", "secret.key", "fairlead.db"):
        assert (data / name).stat().st_mode & 0o077 == 0, name


def _read_operations(operations: list[Any]) -> list[Any]:
    """The read-only operations, except the endless event stream."""
    return [item for item in operations if item[0] == "GET" and not item[1].endswith("/events")]


def test_malicious_code_uses_only_the_standard_library() -> None:
    """The attacker is submitted as a run's code."""
    source = INTRUDER.read_text("utf-8")
    assert "fairlead." not in source.replace("fairlead_session", "")
    assert intruders.main.__doc__

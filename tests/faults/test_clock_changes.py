"""Changing a real server's clock by hours and days while runs are executed."""

import signal
from pathlib import Path

import pytest

from tests.faults import clocks
from tests.faults.callers import RequestRecord, RetryingClient, submitting_runs
from tests.faults.checking import Footprint, check_all, check_footprint
from tests.faults.sites import Site, open_site
from tests.processes.machines import Machine

HOUR, DAY = 3600, 86_400
JUMPS = (3 * HOUR, -3 * HOUR, 40 * DAY, -40 * DAY, 0)
KINDS = ["succeeding", "failing", "stopped", "deleted", "supervisor killed", "stopped at once"]


@pytest.fixture
def variables(machine: Machine) -> dict[str, str]:
    """The environment variables for a server with a configurable clock."""
    return {clocks.CLOCK_FILE: str(machine.folder / "data" / clocks.FILE_NAME)}


def test_server_keeps_working_through_repeated_clock_changes(machine: Machine, variables: dict[str, str]) -> None:
    record = RequestRecord()
    with open_site(machine, variables=variables) as site, RetryingClient(site, record) as client:
        pid, token = site.server.process.pid, make_token(site)
        run_ids = [client.submit(kind) for kind in ("long deadline", "short deadline", "long deadline")]
        for run_id in run_ids:
            client.wait(run_id, "running", "failed")
        before = Footprint.of(pid)
        for offset in JUMPS:
            clocks.set_clock(site.data, offset)
            assert is_accepted(site, token) is (offset < HOUR)
            late_run_id = client.submit("short deadline")
            with submitting_runs(site, record, KINDS, client_count=3, minimum=len(KINDS)):
                pass
            client.wait(late_run_id, "failed")
        assert [client.get(run_id)["state"] for run_id in run_ids] == ["running", "failed", "running"]
        Path(f"{site.executions}.go").touch()
        check_all(site, record)
        check_footprint(before, Footprint.of(pid))


def test_history_is_ordered_if_the_clock_is_set_back_before_a_start(
    machine: Machine, variables: dict[str, str]
) -> None:
    record = RequestRecord()
    with open_site(machine, variables=variables) as site, RetryingClient(site, record) as client:
        client.wait(client.submit("long deadline"), "running")
        site.server.stop(signal.SIGKILL)
        clocks.set_clock(site.data, -3 * HOUR)
        site.up()
        Path(f"{site.executions}.go").touch()
        check_all(site, record)


def make_token(site: Site) -> str:
    """A token that expires in an hour."""
    with site.client() as client:
        response = client.post("/tokens", json={"name": "for an hour", "expires_in": "1h"})
        assert response.status_code == 201, response.text
        return str(response.json()["token"])


def is_accepted(site: Site, token: str) -> bool:
    """Whether the server accepts a token."""
    with site.client() as client:
        status = client.get("/me", headers={"Authorization": f"Bearer {token}"}).status_code
    assert status in (200, 401)
    return status == 200

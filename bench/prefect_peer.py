"""Prefect as a peer: its server with SQLite, and a runner that starts a process for each run of a flow."""

import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench import environments
from bench.peer_measurements import SHIPPED, BatchResult, PageRequest
from bench.processes import HOST, ROOT, ManagedProcess, clean_environment, drive, free_port

VERSION = "3.8.8"
# Prefect does not start with newer FastAPI versions, which reject the way it declares parameters.
REQUIREMENTS = (f"prefect=={VERSION}", "fastapi>=0.139,<0.145")
FLOW = ROOT / "bench" / "drivers" / "prefect_flow.py"
WITHIN, EAGER = "within the client", "polling every second"
POLL_SECONDS = 1  # the minimum; the default is 10 seconds
TIMEOUT_SECONDS = 120
RUN_SECONDS = 60


@dataclass
class Prefect:
    """Prefect in its own folders."""

    environment: Path
    folder: Path
    name: str = f"Prefect {VERSION}"
    modes: Sequence[str] = (SHIPPED, WITHIN, EAGER)
    port: int = 0
    settings: dict[str, str] = field(default_factory=dict)
    server: ManagedProcess | None = None
    runner: ManagedProcess | None = None
    served: str = ""

    def __post_init__(self) -> None:
        """Install Prefect if needed."""
        self.python = environments.provide(self.environment, REQUIREMENTS)

    def start(self) -> float:
        """Start the server, then the runner; return the seconds until the server lists its runs."""
        self.folder.mkdir(parents=True, exist_ok=True)
        home, self.port = Path(tempfile.mkdtemp(prefix="home-", dir=self.folder)), free_port()
        self.settings = clean_environment(
            self.python.parent,
            PREFECT_HOME=str(home),
            PREFECT_API_URL=f"http://{HOST}:{self.port}/api",
            PREFECT_SERVER_ANALYTICS_ENABLED="false",
        )
        self.server = ManagedProcess(home, self.settings)
        started = time.perf_counter()
        self.server.start(
            [self.python.with_name("prefect"), "server", "start", "--host", HOST, "--port", str(self.port)]
        )
        self.server.wait_for(self._page.is_ready, TIMEOUT_SECONDS)
        seconds = time.perf_counter() - started
        self._serve(SHIPPED)
        return seconds

    def stop(self) -> None:
        """Stop all processes."""
        self._stop_runner()
        if self.server is not None:
            self.server.stop()
        self.server = None

    def pids(self) -> list[int]:
        """Return the PIDs of the server, the runner and the runs."""
        return [pid for process in (self.server, self.runner) if process is not None for pid in process.pids()]

    def submit_and_wait(self, mode: str, count: int) -> list[float]:
        """Execute runs one after another; return the seconds that each took."""
        if mode != WITHIN:
            self._serve(mode)
        command = "within" if mode == WITHIN else "deployed"
        return list(self._drive(command, count, seconds=(count + 1) * RUN_SECONDS))

    def submit_many(self, count: int, limit_seconds: float) -> BatchResult:
        """Submit all runs at once to the runner that polls most often, and wait for them."""
        self._serve(EAGER)
        batch = BatchResult(**self._drive("many", count, limit_seconds, seconds=limit_seconds + TIMEOUT_SECONDS))
        self._stop_runner()
        return batch

    def list_50(self, count: int) -> list[float]:
        """Return the seconds that each request for a page of 50 runs took."""
        return self._page.time(count)

    @property
    def _page(self) -> PageRequest:
        return PageRequest(self.port, "/api/flow_runs/filter", "POST", {"limit": 50, "sort": "START_TIME_DESC"})

    def _serve(self, mode: str) -> None:
        """Serve the flow in a mode, with a new runner if the mode changes."""
        if self.served == mode:
            return
        self._stop_runner()
        folder = Path(tempfile.mkdtemp(prefix="runner-", dir=self.folder))
        variables = {"PREFECT_RUNNER_POLL_FREQUENCY": str(POLL_SECONDS)} if mode == EAGER else {}
        runner = ManagedProcess(folder, self.settings | variables)
        self.runner, self.served = runner, mode
        runner.start([self.python, FLOW])
        runner.wait_for(lambda: "is being served" in runner.log.read_text("utf-8", "replace"), TIMEOUT_SECONDS)

    def _stop_runner(self) -> None:
        if self.runner is not None:
            self.runner.stop()
        self.runner, self.served = None, ""

    def _drive(self, *arguments: object, seconds: float) -> Any:
        return drive(self.python, "prefect_driver", *arguments, environment=self.settings, seconds=seconds)

"""Prefect as a peer: its server on SQLite, and a process that serves a flow and starts a process for each run."""

import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench import environments
from bench.comparing import SHIPPED, Many, Page
from bench.processes import HOST, ROOT, Kept, clean_environment, drive, free_port

VERSION = "3.8.8"
# It does not start with a newer fastapi: that refuses how it describes its parameters.
REQUIREMENTS = (f"prefect=={VERSION}", "fastapi>=0.139,<0.145")
FLOW = ROOT / "bench" / "drivers" / "prefect_flow.py"
WITHIN, EAGER = "within the client", "looked for every second"
EAGER_SECONDS = 1  # the least that it takes; it looks for runs every 10 seconds by itself
PATIENCE_SECONDS = 120
RUN_SECONDS = 60


@dataclass
class Prefect:
    """Prefect in folders of its own."""

    environment: Path
    folder: Path
    name: str = f"Prefect {VERSION}"
    ways: Sequence[str] = (SHIPPED, WITHIN, EAGER)
    port: int = 0
    settings: dict[str, str] = field(default_factory=dict)
    server: Kept | None = None
    runner: Kept | None = None
    served: str = ""

    def __post_init__(self) -> None:
        """Install it, where it is not yet."""
        self.python = environments.provide(self.environment, REQUIREMENTS)

    def start(self) -> float:
        """Start the server, then the process that runs flows; seconds until the first listed its runs."""
        self.folder.mkdir(parents=True, exist_ok=True)
        home, self.port = Path(tempfile.mkdtemp(prefix="home-", dir=self.folder)), free_port()
        self.settings = clean_environment(
            self.python.parent,
            PREFECT_HOME=str(home),
            PREFECT_API_URL=f"http://{HOST}:{self.port}/api",
            PREFECT_SERVER_ANALYTICS_ENABLED="false",
        )
        self.server = Kept(home, self.settings)
        started = time.perf_counter()
        self.server.start(
            [self.python.with_name("prefect"), "server", "start", "--host", HOST, "--port", str(self.port)]
        )
        self.server.wait_for(self._page.is_answered, PATIENCE_SECONDS)
        took = time.perf_counter() - started
        self._serve(SHIPPED)
        return took

    def stop(self) -> None:
        """End every process, where it runs."""
        self._stop_runner()
        if self.server is not None:
            self.server.stop()
        self.server = None

    def pids(self) -> list[int]:
        """The server, the process that runs flows, and the runs."""
        return [pid for kept in (self.server, self.runner) if kept is not None for pid in kept.pids()]

    def submit_and_wait(self, way: str, count: int) -> list[float]:
        """Seconds of each run, of one after the other."""
        if way != WITHIN:
            self._serve(way)
        driven = self._drive("within" if way == WITHIN else "deployed", count, seconds=(count + 1) * RUN_SECONDS)
        return list(driven)

    def submit_many(self, count: int, limit_seconds: float) -> Many:
        """Submit runs at once to the process that looks for them most often, and wait for all."""
        self._serve(EAGER)
        many = Many(**self._drive("many", count, limit_seconds, seconds=limit_seconds + PATIENCE_SECONDS))
        self._stop_runner()
        return many

    def list_50(self, count: int) -> list[float]:
        """Seconds of each of some requests for a page of 50 runs."""
        return self._page.time(count)

    @property
    def _page(self) -> Page:
        return Page(self.port, "/api/flow_runs/filter", "POST", {"limit": 50, "sort": "START_TIME_DESC"})

    def _serve(self, way: str) -> None:
        """Have the flow served in a way, by another process than before where it was another way."""
        if self.served == way:
            return
        self._stop_runner()
        folder = Path(tempfile.mkdtemp(prefix="runner-", dir=self.folder))
        eager = {"PREFECT_RUNNER_POLL_FREQUENCY": str(EAGER_SECONDS)} if way == EAGER else {}
        runner = Kept(folder, self.settings | eager)
        self.runner, self.served = runner, way
        runner.start([self.python, FLOW])
        runner.wait_for(lambda: "is being served" in runner.log.read_text("utf-8", "replace"), PATIENCE_SECONDS)

    def _stop_runner(self) -> None:
        if self.runner is not None:
            self.runner.stop()
        self.runner, self.served = None, ""

    def _drive(self, *words: object, seconds: float) -> Any:
        return drive(self.python, "prefect_driver", *words, environment=self.settings, seconds=seconds)

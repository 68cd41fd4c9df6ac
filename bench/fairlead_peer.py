"""Fairlead as a peer: `fairlead up` with SQLite and local execution, and its own client."""

import shutil
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import fairlead
from bench.peer_measurements import SHIPPED, BatchResult, PageRequest
from bench.processes import HOST, ManagedProcess, clean_environment, drive, free_port

TIMEOUT_SECONDS = 60
RUN_SECONDS = 30


@dataclass
class Fairlead:
    """A Fairlead server with its own data folder, in the environment of this program."""

    environment: Path
    folder: Path
    name: str = f"Fairlead {fairlead.__version__}"
    modes: Sequence[str] = (SHIPPED,)
    port: int = 0
    settings: dict[str, str] = field(default_factory=dict)
    server: ManagedProcess | None = None

    def __post_init__(self) -> None:
        self.settings = clean_environment(Path(sys.executable).parent)

    def start(self) -> float:
        """Start a server with an empty folder; return the seconds until it lists its runs."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        self.port = free_port()
        self.server = ManagedProcess(self.folder, self.settings)
        started = time.perf_counter()
        self.server.start([sys.executable, "-m", "fairlead.app", "up", f"--port={self.port}", f"--data={self._data}"])
        self.server.wait_for(lambda: (self._data / "token").exists() and self._page.is_ready(), TIMEOUT_SECONDS)
        return time.perf_counter() - started

    def stop(self) -> None:
        """Stop all processes."""
        if self.server is not None:
            self.server.stop()
        self.server = None

    def pids(self) -> list[int]:
        """Return the PIDs of the server, the supervisors and the runs' processes."""
        return [] if self.server is None else self.server.pids()

    def submit_and_wait(self, mode: str, count: int) -> list[float]:
        """Execute runs one after another; return the seconds that each took."""
        assert mode == SHIPPED, mode
        return list(self._drive("wait", count, seconds=(count + 1) * RUN_SECONDS))

    def submit_many(self, count: int, limit_seconds: float) -> BatchResult:
        """Submit all runs at once and wait for them."""
        return BatchResult(**self._drive("many", count, limit_seconds, seconds=limit_seconds + TIMEOUT_SECONDS))

    def list_50(self, count: int) -> list[float]:
        """Return the seconds that each request for a page of runs took."""
        return self._page.time(count)

    @property
    def database_url(self) -> str:
        """The URL of its database."""
        return f"sqlite:///{self._data / 'fairlead.db'}"

    @property
    def _data(self) -> Path:
        return self.folder / "data"

    @property
    def _token(self) -> str:
        return (self._data / "token").read_text("utf-8").strip()

    @property
    def _page(self) -> PageRequest:
        return PageRequest(self.port, "/api/v1/runs?limit=50", token=self._token)

    def _drive(self, *arguments: object, seconds: float) -> Any:
        variables = {**self.settings, "FAIRLEAD_URL": f"http://{HOST}:{self.port}", "FAIRLEAD_TOKEN": self._token}
        return drive(Path(sys.executable), "fairlead_driver", *arguments, environment=variables, seconds=seconds)

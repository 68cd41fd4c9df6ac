"""Fairlead itself as one of the peers: `fairlead up` on SQLite and this machine, and its own client."""

import shutil
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import fairlead
from bench.comparing import SHIPPED, Many, Page
from bench.processes import HOST, Kept, clean_environment, drive, free_port

PATIENCE_SECONDS = 60
RUN_SECONDS = 30


@dataclass
class Fairlead:
    """A server with a data folder of its own. Its environment is the one that this runs in."""

    environment: Path
    folder: Path
    name: str = f"Fairlead {fairlead.__version__}"
    ways: Sequence[str] = (SHIPPED,)
    port: int = 0
    settings: dict[str, str] = field(default_factory=dict)
    server: Kept | None = None

    def __post_init__(self) -> None:
        """Take nothing from the environment of whoever measures."""
        self.settings = clean_environment(Path(sys.executable).parent)

    def start(self) -> float:
        """Start a server on an empty folder; seconds until it listed its runs."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        self.port = free_port()
        self.server = Kept(self.folder, self.settings)
        started = time.perf_counter()
        self.server.start([sys.executable, "-m", "fairlead.app", "up", f"--port={self.port}", f"--data={self._data}"])
        self.server.wait_for(lambda: (self._data / "token").exists() and self._page.is_answered(), PATIENCE_SECONDS)
        return time.perf_counter() - started

    def stop(self) -> None:
        """End every process, where it runs."""
        if self.server is not None:
            self.server.stop()
        self.server = None

    def pids(self) -> list[int]:
        """The server, and the supervisors and processes of runs."""
        return [] if self.server is None else self.server.pids()

    def submit_and_wait(self, way: str, count: int) -> list[float]:
        """Seconds of each run, of one after the other."""
        assert way == SHIPPED, way
        return list(self._drive("wait", count, seconds=(count + 1) * RUN_SECONDS))

    def submit_many(self, count: int, limit_seconds: float) -> Many:
        """Submit runs at once and wait for all."""
        return Many(**self._drive("many", count, limit_seconds, seconds=limit_seconds + PATIENCE_SECONDS))

    def list_50(self, count: int) -> list[float]:
        """Seconds of each of some requests for a page of runs."""
        return self._page.time(count)

    @property
    def database_url(self) -> str:
        """Where its runs are kept."""
        return f"sqlite:///{self._data / 'fairlead.db'}"

    @property
    def _data(self) -> Path:
        return self.folder / "data"

    @property
    def _token(self) -> str:
        return (self._data / "token").read_text("utf-8").strip()

    @property
    def _page(self) -> Page:
        return Page(self.port, "/api/v1/runs?limit=50", token=self._token)

    def _drive(self, *words: object, seconds: float) -> Any:
        known = {**self.settings, "FAIRLEAD_URL": f"http://{HOST}:{self.port}", "FAIRLEAD_TOKEN": self._token}
        return drive(Path(sys.executable), "fairlead_driver", *words, environment=known, seconds=seconds)

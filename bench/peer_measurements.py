"""Measurements that are the same for every peer: start, memory, running functions and listing runs."""

import http.client
import json
import math
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from bench.processes import HOST, PeakMemory, memory

SHIPPED = "as shipped"
TIMEOUT_SECONDS = 30
MIB = 2**20


@dataclass(frozen=True)
class Options:
    """How much to measure."""

    starts: int = 2
    samples: int = 20
    many: int = 200
    limit_seconds: float = 240
    settle_seconds: float = 5


@dataclass(frozen=True)
class BatchResult:
    """The result of submitting many runs at once."""

    finished: int
    failed: int
    seconds: float
    rejected: int = 0  # submissions that the server rejected and that were sent again
    left: int = 0  # runs that could not be stopped after the time limit


class Peer(Protocol):
    """A server on loopback that runs functions, with all its processes."""

    @property
    def name(self) -> str:
        """The name and version."""

    @property
    def modes(self) -> Sequence[str]:
        """The measured modes of running a function; the first is `SHIPPED`."""

    def start(self) -> float:
        """Start with an empty folder and wait until functions can run. Return the seconds until it lists its runs."""

    def stop(self) -> None:
        """Stop all processes."""

    def pids(self) -> list[int]:
        """Return the PIDs of all processes except those of clients."""

    def submit_and_wait(self, mode: str, count: int) -> list[float]:
        """Execute runs one after another; return the seconds from each client call until it sees the run end."""

    def submit_many(self, count: int, limit_seconds: float) -> BatchResult:
        """Submit all runs at once and wait for them until the time limit; then stop the rest."""

    def list_50(self, count: int) -> list[float]:
        """Return the seconds that each request for a page of 50 runs took."""


@dataclass(frozen=True)
class Figure:
    """A row of the table, for one peer."""

    step: int
    label: str
    value: float
    digits: int = 0
    baseline: str = ""  # the row to compare with if another peer does not have this one


@dataclass
class PeerResults:
    """The measurements of one peer, with notes."""

    name: str
    figures: list[Figure] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class PageRequest:
    """A request for a page of runs."""

    port: int
    path: str
    method: str = "GET"
    body: Any = None
    token: str = ""

    def send(self, connection: http.client.HTTPConnection) -> bytes:
        """Send the request and return the response. Raises ConnectionError for an error status."""
        headers = {"Content-Type": "application/json"} | (
            {"Authorization": f"Bearer {self.token}"} if self.token else {}
        )
        connection.request(self.method, self.path, None if self.body is None else json.dumps(self.body), headers)
        response = connection.getresponse()
        content = response.read()
        if not 200 <= response.status < 300:
            raise ConnectionError(f"{self.path}: {response.status} {content[:500]!r}")
        return content

    def is_ready(self) -> bool:
        """Whether the server responds successfully."""
        connection = http.client.HTTPConnection(HOST, self.port, timeout=TIMEOUT_SECONDS)
        try:
            return bool(self.send(connection))
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    def time(self, count: int) -> list[float]:
        """Return the seconds that each request on one connection took, after a request that opens it."""
        connection = http.client.HTTPConnection(HOST, self.port, timeout=TIMEOUT_SECONDS)
        self.send(connection)
        durations = []
        for _ in range(count):
            started = time.perf_counter()
            self.send(connection)
            durations.append(time.perf_counter() - started)
        connection.close()
        return durations


def measure(peer: Peer, options: Options, results: PeerResults) -> None:
    """Measure a peer, and always stop it afterward."""
    try:
        _measure_starts(peer, options, results)
        _measure_idle(peer, options, results)
        _measure_runs(peer, options, results)
        _measure_many(peer, options, results)
        durations = peer.list_50(options.samples)
        results.figures.append(Figure(5, "list 50 runs, median, ms", statistics.median(durations) * 1000, 1))
    finally:
        peer.stop()


def _measure_starts(peer: Peer, options: Options, results: PeerResults) -> None:
    durations = []
    for _ in range(options.starts):
        peer.stop()
        durations.append(peer.start())
    results.figures.append(Figure(1, "cold start, s", min(durations), 2))


def _measure_idle(peer: Peer, options: Options, results: PeerResults) -> None:
    time.sleep(options.settle_seconds)
    pids = peer.pids()
    results.figures.append(Figure(2, "memory idle, MiB", memory(pids) / MIB))
    results.figures.append(Figure(2, "processes idle", len(pids)))


def _measure_runs(peer: Peer, options: Options, results: PeerResults) -> None:
    for mode in peer.modes:
        durations = sorted(peer.submit_and_wait(mode, options.samples))
        figures = {"median": statistics.median(durations), "95%": durations[math.ceil(len(durations) * 0.95) - 1]}
        for name, seconds in figures.items():
            label = f"run {{}}, {name}, s"
            results.figures.append(Figure(3, label.format(mode), seconds, 2, baseline=label.format(SHIPPED)))


def _measure_many(peer: Peer, options: Options, results: PeerResults) -> None:
    with PeakMemory(peer.pids, serving=set(peer.pids())) as peak:
        batch = peer.submit_many(options.many, options.limit_seconds)
    label = f"{options.many} at once"
    results.figures.append(Figure(4, f"{label}, done per second", batch.finished / batch.seconds, 2))
    results.figures.append(Figure(4, f"{label}, peak memory of servers, MiB", peak.of_serving / MIB))
    results.figures.append(Figure(4, f"{label}, peak memory with runs, MiB", peak.of_all / MIB))
    if batch.finished < options.many:
        counts = f"{batch.finished} done and {batch.failed} failed of {options.many} after {batch.seconds:.0f} s"
        results.notes.append(f"{peer.name}: {counts}; the rate is for these {batch.finished}")
    if batch.rejected:
        results.notes.append(
            f"{peer.name}: rejected {batch.rejected} of {options.many} submissions, which were sent again"
        )
    if batch.left:
        results.notes.append(
            f"{peer.name}: {batch.left} runs could not be stopped and were active while it listed runs"
        )

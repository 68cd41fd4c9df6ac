"""What is measured of a peer, the same for each: how it starts, weighs, runs functions and lists runs."""

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
PATIENCE_SECONDS = 30
MIB = 2**20


@dataclass(frozen=True)
class Options:
    """How much is asked of each peer."""

    starts: int = 2
    samples: int = 20
    many: int = 200
    limit_seconds: float = 240
    settle_seconds: float = 5


@dataclass(frozen=True)
class Many:
    """What came of many runs that were submitted at once."""

    finished: int
    failed: int
    seconds: float
    refused: int = 0  # submits that the server did not take, and that were sent again
    left: int = 0  # runs that could not be stopped after the limit


class Peer(Protocol):
    """A server that runs functions, on loopback, with all the processes that it needs for that."""

    @property
    def name(self) -> str:
        """The name and the version."""

    @property
    def ways(self) -> Sequence[str]:
        """The ways in which it runs a function that are worth a figure; the first is `SHIPPED`."""

    def start(self) -> float:
        """Start on an empty folder; seconds until it listed its runs. Returns when it can run functions too."""

    def stop(self) -> None:
        """End every process, where it runs."""

    def pids(self) -> list[int]:
        """Every process, without those of clients."""

    def submit_and_wait(self, way: str, count: int) -> list[float]:
        """Seconds from the call of its client until that knows that the run is done, for one run after the other."""

    def submit_many(self, count: int, limit_seconds: float) -> Many:
        """Submit runs at once and wait for all, as long as the limit allows; then stop the rest."""

    def list_50(self, count: int) -> list[float]:
        """Seconds of each of some requests for a page of 50 runs."""


@dataclass(frozen=True)
class Figure:
    """A row of the table, for one peer."""

    step: int
    label: str
    value: float
    digits: int = 0
    beside: str = ""  # the row with which a peer without this row is compared


@dataclass
class Measures:
    """What was measured of one peer, and what to know about it."""

    name: str
    figures: list[Figure] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Page:
    """A request for a page of runs."""

    port: int
    path: str
    method: str = "GET"
    body: Any = None
    token: str = ""

    def ask(self, connection: http.client.HTTPConnection) -> bytes:
        """The answer. Raises where it is no success."""
        headers = {"Content-Type": "application/json"} | (
            {"Authorization": f"Bearer {self.token}"} if self.token else {}
        )
        connection.request(self.method, self.path, None if self.body is None else json.dumps(self.body), headers)
        answer = connection.getresponse()
        read = answer.read()
        if not 200 <= answer.status < 300:
            raise ConnectionError(f"{self.path}: {answer.status} {read[:500]!r}")
        return read

    def is_answered(self) -> bool:
        """Whether there is a good answer already."""
        connection = http.client.HTTPConnection(HOST, self.port, timeout=PATIENCE_SECONDS)
        try:
            return bool(self.ask(connection))
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    def time(self, count: int) -> list[float]:
        """Seconds of each of some requests on one connection, after one that opens it."""
        connection = http.client.HTTPConnection(HOST, self.port, timeout=PATIENCE_SECONDS)
        self.ask(connection)
        took = []
        for _ in range(count):
            started = time.perf_counter()
            self.ask(connection)
            took.append(time.perf_counter() - started)
        connection.close()
        return took


def measure(peer: Peer, options: Options, found: Measures) -> None:
    """Find all the figures of a peer. It is stopped afterwards, whatever happens."""
    try:
        _measure_starts(peer, options, found)
        _measure_idle(peer, options, found)
        _measure_runs(peer, options, found)
        _measure_many(peer, options, found)
        took = peer.list_50(options.samples)
        found.figures.append(Figure(5, "list 50 runs, median, ms", statistics.median(took) * 1000, 1))
    finally:
        peer.stop()


def _measure_starts(peer: Peer, options: Options, found: Measures) -> None:
    took = []
    for _ in range(options.starts):
        peer.stop()
        took.append(peer.start())
    found.figures.append(Figure(1, "cold start, s", min(took), 2))


def _measure_idle(peer: Peer, options: Options, found: Measures) -> None:
    time.sleep(options.settle_seconds)
    pids = peer.pids()
    found.figures.append(Figure(2, "memory idle, MiB", memory(pids) / MIB))
    found.figures.append(Figure(2, "processes idle", len(pids)))


def _measure_runs(peer: Peer, options: Options, found: Measures) -> None:
    for way in peer.ways:
        took = sorted(peer.submit_and_wait(way, options.samples))
        figures = {"median": statistics.median(took), "95%": took[math.ceil(len(took) * 0.95) - 1]}
        for which, seconds in figures.items():
            label = f"run {{}}, {which}, s"
            found.figures.append(Figure(3, label.format(way), seconds, 2, beside=label.format(SHIPPED)))


def _measure_many(peer: Peer, options: Options, found: Measures) -> None:
    with PeakMemory(peer.pids, serving=set(peer.pids())) as peak:
        many = peer.submit_many(options.many, options.limit_seconds)
    label = f"{options.many} at once"
    found.figures.append(Figure(4, f"{label}, done per second", many.finished / many.seconds, 2))
    found.figures.append(Figure(4, f"{label}, peak memory of servers, MiB", peak.of_serving / MIB))
    found.figures.append(Figure(4, f"{label}, peak memory with runs, MiB", peak.of_all / MIB))
    if many.finished < options.many:
        told = f"{many.finished} done and {many.failed} failed of {options.many} after {many.seconds:.0f} s"
        found.notes.append(f"{peer.name}: {told}; the rate is that of the {many.finished}")
    if many.refused:
        found.notes.append(
            f"{peer.name}: refused {many.refused} submits of those {options.many}, which were sent again"
        )
    if many.left:
        found.notes.append(
            f"{peer.name}: {many.left} of them could not be stopped, and were there while it listed runs"
        )

"""Figures of a case on a site, from its rounds: those of the least disturbed one."""

import itertools
import statistics
from dataclasses import dataclass, field

from bench.loads import Burst

TICK_SECONDS = 0.01  # in which Linux counts CPU time


@dataclass(frozen=True)
class Round:
    """What one turn of a case on a site came to."""

    together: Burst
    alone: Burst
    server_cpu: float
    database_cpu: float

    @property
    def count(self) -> int:
        """How many answers there were."""
        return len(self.together.latencies) + len(self.alone.latencies)


@dataclass
class Measured:
    """What the rounds of a case on a site came to."""

    rounds: list[Round] = field(default_factory=list)

    @property
    def per_second(self) -> float:
        """Answers in a second, with all connections."""
        return max(len(turn.together.latencies) / turn.together.wall_seconds for turn in self.rounds)

    @property
    def per_cpu_second(self) -> float:
        """Answers in a second in which the server has a core to itself."""
        return max(turn.count / max(turn.server_cpu, TICK_SECONDS) for turn in self.rounds)

    @property
    def database_milliseconds(self) -> float:
        """What a database that is not in the server's process spends on an answer."""
        return min(turn.database_cpu / turn.count for turn in self.rounds) * 1000

    @property
    def alone_seconds(self) -> float:
        """How long an answer takes where nobody else asks."""
        return min(statistics.median(turn.alone.latencies) for turn in self.rounds)

    @property
    def median_seconds(self) -> float:
        """How long an answer takes among those of all connections."""
        return min(statistics.median(turn.together.latencies) for turn in self.rounds)

    @property
    def slow_seconds(self) -> float:
        """How long the slowest of a hundred answers takes, among those of all connections and rounds."""
        latencies = sorted(itertools.chain.from_iterable(turn.together.latencies for turn in self.rounds))
        return latencies[len(latencies) * 99 // 100]

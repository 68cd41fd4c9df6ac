"""Results of a benchmark case on a site. Each figure is from the least disturbed round."""

import itertools
import statistics
from dataclasses import dataclass, field

from bench.http_load import Burst

TICK_SECONDS = 0.01  # resolution of CPU times in Linux


@dataclass(frozen=True)
class LoadRound:
    """One round of a case on a site."""

    together: Burst
    alone: Burst
    server_cpu: float
    database_cpu: float

    @property
    def count(self) -> int:
        """The number of responses."""
        return len(self.together.latencies) + len(self.alone.latencies)


@dataclass
class CaseResult:
    """All rounds of a case on a site."""

    rounds: list[LoadRound] = field(default_factory=list)

    @property
    def per_second(self) -> float:
        """Responses per second, with all connections."""
        return max(len(load_round.together.latencies) / load_round.together.wall_seconds for load_round in self.rounds)

    @property
    def per_cpu_second(self) -> float:
        """Responses per CPU second of the server."""
        return max(load_round.count / max(load_round.server_cpu, TICK_SECONDS) for load_round in self.rounds)

    @property
    def database_milliseconds(self) -> float:
        """CPU milliseconds per response in a database outside the server's process."""
        return min(load_round.database_cpu / load_round.count for load_round in self.rounds) * 1000

    @property
    def alone_seconds(self) -> float:
        """Median response time in seconds, with a single connection."""
        return min(statistics.median(load_round.alone.latencies) for load_round in self.rounds)

    @property
    def median_seconds(self) -> float:
        """Median response time in seconds, with all connections."""
        return min(statistics.median(load_round.together.latencies) for load_round in self.rounds)

    @property
    def slow_seconds(self) -> float:
        """The 99th percentile of response times in seconds, with all connections, over all rounds."""
        latencies = sorted(itertools.chain.from_iterable(load_round.together.latencies for load_round in self.rounds))
        return latencies[len(latencies) * 99 // 100]

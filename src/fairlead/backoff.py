"""Exponential backoff: pauses between attempts that double after each failure."""

from typing import NamedTuple

MAX_DOUBLINGS = 64  # an outage of days must not overflow a float


class Backoff(NamedTuple):
    """Pauses in seconds: the first, and the longest."""

    first: float
    longest: float

    def pause(self, failures: int) -> float:
        """The pause before the next attempt, after this many earlier failures in a row."""
        return min(self.first * 2.0 ** min(failures, MAX_DOUBLINGS), self.longest)

"""A clock that may be set, for what cannot be undone."""

import time
from collections.abc import Callable
from datetime import datetime, timedelta

from fairlead.ports import Clock

STEP = timedelta(minutes=1)  # what clocks are corrected by in the ordinary way is less
BELIEVED_AFTER = timedelta(days=1)


def count_seconds() -> float:
    """Seconds since this machine was started, those in which it slept among them. Nobody sets these."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class StableClock:
    """The time of a clock that is believed at once where it is set back, and after a day where it is set ahead.

    Or a clock that is a year ahead for a moment would let all be forgotten that is a month old.
    """

    def __init__(self, clock: Clock, count: Callable[[], float] = count_seconds) -> None:
        self._clock, self._count = clock, count
        self._known, self._counted = clock(), count()
        self._doubted_since: float | None = None

    def __call__(self) -> datetime:
        """The time."""
        now, counted = self._clock(), self._count()
        expected = self._known + timedelta(seconds=counted - self._counted)
        if now - expected > STEP:
            self._doubted_since = counted if self._doubted_since is None else self._doubted_since
            if timedelta(seconds=counted - self._doubted_since) < BELIEVED_AFTER:
                return expected
        self._known, self._counted, self._doubted_since = now, counted, None
        return now

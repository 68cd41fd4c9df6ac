"""A clock for decisions that cannot be undone, such as deleting data."""

import time
from collections.abc import Callable
from datetime import datetime, timedelta

from fairlead.ports import Clock

STEP = timedelta(minutes=1)  # ordinary clock corrections are smaller
# A clock that was behind stays ahead of the counter once it is corrected, so it must be trusted eventually. A day
# leaves enough time to notice and correct a wrong clock before data is deleted.
TRUSTED_AFTER = timedelta(days=1)


def boot_seconds() -> float:
    """Return the seconds since boot, including time asleep. Setting the clock does not affect them."""
    # On Linux, CLOCK_MONOTONIC stops during suspend: after waking up, the correct time would look like a jump ahead.
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class StableClock:
    """A clock that follows forward jumps of the system clock only after a day, and backward jumps immediately.

    Without it, retention would delete everything if the system clock were a year ahead for a moment.
    """

    def __init__(self, clock: Clock, read_counter: Callable[[], float] = boot_seconds) -> None:
        self._clock, self._read_counter = clock, read_counter
        self._time, self._counter = clock(), read_counter()
        self._ahead_since: float | None = None  # counter value when the clock was first found to be ahead

    def __call__(self) -> datetime:
        now, counted = self._clock(), self._read_counter()
        expected = self._time + timedelta(seconds=counted - self._counter)
        if now - expected > STEP:
            self._ahead_since = counted if self._ahead_since is None else self._ahead_since
            if timedelta(seconds=counted - self._ahead_since) < TRUSTED_AFTER:
                return expected
        # Each trusted reading becomes the reference, so that small differences between clock and counter do not add up.
        self._time, self._counter, self._ahead_since = now, counted, None
        return now

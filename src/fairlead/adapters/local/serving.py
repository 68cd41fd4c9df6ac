"""What is known of a run that serves: whether it answers, how often it ended, and when it is started again.

Standard library only. Times are those of a clock that nobody sets.
"""

from collections.abc import Callable

from fairlead.adapters.exits import tell_times

FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0
STEADY_SECONDS = 60.0  # who has answered for so long begins anew with the first pause
LOOK_SECONDS = 5.0  # how often is looked at what answers
EAGER_SECONDS, SHARE = 0.1, 20  # what does not: at once, and the more seldom the longer that takes
MOST_MISSED = 2
OWN_REASONS = ("OOMKilled", "Evicted")  # for which it was ended; for all others it ended by itself


class Served:
    """A run that serves. `find` tells where it takes connections; None where it does not."""

    def __init__(self, find: Callable[[], str | None], place: str, now: float) -> None:
        self.find, self.place = find, place
        self.phase, self.reason = "starting", ""
        self.message = f"is being started: nothing listens on {place} yet"
        self.address: str | None = None
        self.ends = 0
        self.again_at: float | None = None
        self._pause = FIRST_PAUSE
        self._began, self._look_at, self._missed = now, now, 0
        self._ready_since: float | None = None

    def look(self, now: float) -> bool:
        """Look whether it answers; whether there is something new to tell."""
        if self.again_at is not None or now < self._look_at:
            return False
        if (found := self.find()) is not None:
            new = self.phase != "running" or found != self.address
            self._ready_since = now if self._ready_since is None else self._ready_since
            self._look_at, self._missed, self.address = now + LOOK_SECONDS, 0, found
            self.phase, self.reason, self.message = "running", "Ready", "answers"
            return new
        if self.phase != "running":
            self._look_at = now + min(max((now - self._began) / SHARE, EAGER_SECONDS), LOOK_SECONDS)
            return False
        self._missed, self._look_at = self._missed + 1, now + LOOK_SECONDS
        sure = self._missed >= MOST_MISSED
        moved = self.address is not None and (sure or ":" in self.address)
        if moved:
            self.address = None  # or whoever listens on that port by now would be sent what is not for them
        if not sure:
            return moved
        self.phase, self.reason = "degraded", "NotReady"
        self.message = f"its process runs, and nothing answers on {self.place} any more"
        self._ready_since, self._began = None, now
        return True

    def end(self, reason: str, message: str, now: float) -> None:
        """Its process has ended: it is started again after a while, each time a longer one."""
        if self._ready_since is not None and now - self._ready_since >= STEADY_SECONDS:
            self._pause = FIRST_PAUSE
        self.ends += 1
        self.again_at, self.address, self._ready_since = now + self._pause, None, None
        self.phase, self.reason = "degraded", reason if reason in OWN_REASONS else "CrashLoopBackOff"
        self._said = f"{message}; it has ended {tell_times(self.ends)}"
        self.message = f"{self._said}, and is started again after {self._pause:g} s"
        self._pause = min(2 * self._pause, LONGEST_PAUSE)

    def is_due(self, now: float) -> bool:
        """Whether it is to be started again."""
        return self.again_at is not None and now >= self.again_at

    def begin(self, now: float) -> None:
        """It was started again."""
        self.again_at, self._began, self._look_at = None, now, now
        self.message = f"{self._said}, and was started again: nothing listens on {self.place} yet"

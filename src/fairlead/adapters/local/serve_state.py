"""What is known of a run that serves: whether it answers, how often it ended, and when it is started again.

Standard library only. Times are those of a clock that nobody sets.
"""

from collections.abc import Callable

from fairlead.adapters.exits import describe_times

FIRST_BACKOFF, MAX_BACKOFF = 1.0, 60.0
BACKOFF_RESET_SECONDS = 60.0  # who has answered for so long begins anew with the first pause
PROBE_SECONDS = 5.0  # how often is looked at what answers
EAGER_SECONDS, SHARE = 0.1, 20  # what does not: at once, and the more seldom the longer that takes
FAILURE_THRESHOLD = 2
OWN_REASONS = ("OOMKilled", "Evicted")  # for which it was ended; for all others it ended by itself


class ServeState:
    """A run that serves. `find` tells where it takes connections; None where it does not."""

    def __init__(self, find: Callable[[], str | None], place: str, now: float) -> None:
        self.find, self.place = find, place
        self.phase, self.reason = "starting", ""
        self.message = f"is being started: nothing listens on {place} yet"
        self.address: str | None = None
        self.ends = 0
        self.restart_at: float | None = None
        self._pause = FIRST_BACKOFF
        self._began, self._look_at, self._missed = now, now, 0
        self._ready_since: float | None = None

    def look(self, now: float) -> bool:
        """Look whether it answers; whether there is something new to tell."""
        if self.restart_at is not None or now < self._look_at:
            return False
        if (found := self.find()) is not None:
            new = self.phase != "running" or found != self.address
            self._ready_since = now if self._ready_since is None else self._ready_since
            self._look_at, self._missed, self.address = now + PROBE_SECONDS, 0, found
            self.phase, self.reason, self.message = "running", "Ready", "answers"
            return new
        if self.phase != "running":
            self._look_at = now + min(max((now - self._began) / SHARE, EAGER_SECONDS), PROBE_SECONDS)
            return False
        self._missed, self._look_at = self._missed + 1, now + PROBE_SECONDS
        sure = self._missed >= FAILURE_THRESHOLD
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
        if self._ready_since is not None and now - self._ready_since >= BACKOFF_RESET_SECONDS:
            self._pause = FIRST_BACKOFF
        self.ends += 1
        self.restart_at, self.address, self._ready_since = now + self._pause, None, None
        self.phase, self.reason = "degraded", reason if reason in OWN_REASONS else "CrashLoopBackOff"
        self._said = f"{message}; it has ended {describe_times(self.ends)}"
        self.message = f"{self._said}, and is started again after {self._pause:g} s"
        self._pause = min(2 * self._pause, MAX_BACKOFF)

    def is_restart_due(self, now: float) -> bool:
        """Whether it is to be started again."""
        return self.restart_at is not None and now >= self.restart_at

    def begin(self, now: float) -> None:
        """It was started again."""
        self.restart_at, self._began, self._look_at = None, now, now
        self.message = f"{self._said}, and was started again: nothing listens on {self.place} yet"

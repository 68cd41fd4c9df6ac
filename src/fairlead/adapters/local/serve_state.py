"""Tracks whether a served run is ready, how often it has exited, and when it will be restarted.

Standard library only. Times are from a monotonic clock.
"""

from collections.abc import Callable

from fairlead.adapters.exits import describe_times

FIRST_BACKOFF, MAX_BACKOFF = 1.0, 60.0
BACKOFF_RESET_SECONDS = 60.0  # after being ready for this long, a run restarts with the shortest backoff again
PROBE_SECONDS = 5.0  # how often a ready run is probed
FIRST_PROBE_SECONDS, SHARE = 0.1, 20  # the longer a run takes to become ready, the less often it is probed
FAILURE_THRESHOLD = 2  # a single probe can fail because the run is busy and its backlog is full
ENFORCED_REASONS = ("OOMKilled", "Evicted")  # the supervisor killed it; otherwise it exited on its own


class ServeState:
    """The state of a served run. `find_address` returns the address that accepts connections, or None."""

    def __init__(self, find_address: Callable[[], str | None], address_text: str, now: float) -> None:
        self.find_address, self.address_text = find_address, address_text
        self.phase, self.reason = "starting", ""
        self.message = f"starting: not accepting connections on {address_text} yet"
        self.address: str | None = None
        self.exits = 0
        self.restart_at: float | None = None
        self._backoff = FIRST_BACKOFF
        self._started, self._probe_at, self._failures = now, now, 0
        self._ready_since: float | None = None

    def probe(self, now: float) -> bool:
        """Probe the run if due; return whether its state changed."""
        if self.restart_at is not None or now < self._probe_at:
            return False
        if (address := self.find_address()) is not None:
            changed = self.phase != "running" or address != self.address
            self._ready_since = now if self._ready_since is None else self._ready_since
            self._probe_at, self._failures, self.address = now + PROBE_SECONDS, 0, address
            self.phase, self.reason, self.message = "running", "Ready", "ready to serve requests"
            return changed
        if self.phase != "running":
            self._probe_at = now + min(max((now - self._started) / SHARE, FIRST_PROBE_SECONDS), PROBE_SECONDS)
            return False
        self._failures, self._probe_at = self._failures + 1, now + PROBE_SECONDS
        failed = self._failures >= FAILURE_THRESHOLD
        address_lost = self.address is not None and (failed or ":" in self.address)
        if address_lost:
            self.address = None  # another program may now be listening on the port and must not get the run's requests
        if not failed:
            return address_lost
        self.phase, self.reason = "degraded", "NotReady"
        self.message = f"running, but no longer accepting connections on {self.address_text}"
        self._ready_since, self._started = None, now  # probe often again, as after a start
        return True

    def record_exit(self, reason: str, message: str, now: float) -> None:
        """Record that the process exited, and schedule its restart with exponential backoff."""
        if self._ready_since is not None and now - self._ready_since >= BACKOFF_RESET_SECONDS:
            self._backoff = FIRST_BACKOFF
        self.exits += 1
        self.restart_at, self.address, self._ready_since = now + self._backoff, None, None
        self.phase, self.reason = "degraded", reason if reason in ENFORCED_REASONS else "CrashLoopBackOff"
        self._exit_message = f"{message}; it has exited {describe_times(self.exits)}"
        self.message = f"{self._exit_message} and will restart in {self._backoff:g} s"
        self._backoff = min(2 * self._backoff, MAX_BACKOFF)

    def is_restart_due(self, now: float) -> bool:
        """Whether the process should be restarted now."""
        return self.restart_at is not None and now >= self.restart_at

    def record_restart(self, now: float) -> None:
        """Record that the process was restarted."""
        self.restart_at, self._started, self._probe_at = None, now, now
        self.message = f"{self._exit_message} and was restarted: not accepting connections on {self.address_text} yet"

"""Rate limits in memory, and the audit of failed sign-ins."""

import contextlib
import math
import threading
from collections import OrderedDict
from collections.abc import Callable

from fairlead.errors import FairleadError, TooManyRequests
from fairlead.model.records import ScopeRecord
from fairlead.model.scopes import PLATFORM
from fairlead.ports import Principal
from fairlead.services.transactions.unit_of_work import Call, UnitOfWorkFactory

MAX_KEYS = 10_000
RECORDED_SECONDS = 60.0  # failures in this period share an entry in the audit log
MAX_ADDRESSES = 20  # with entries of their own in this period, because entries are permanent
OTHER_ADDRESSES = ""


class RateLimiter:
    """A token bucket per key, for example per user or address."""

    def __init__(self, *, burst: int, per_second: float, clock: Callable[[], float]) -> None:
        self._burst, self._per_second, self._clock = burst, per_second, clock
        self._lock = threading.Lock()
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()  # what remains, and when that was computed

    def check(self, key: str, noun: str) -> None:
        """Count a request. Raises `TooManyRequests` if the key has used up its bucket."""
        with self._lock:
            now = self._clock()
            remaining, since = self._buckets.pop(key, (float(self._burst), now))
            remaining = min(float(self._burst), remaining + (now - since) * self._per_second)
            is_allowed = remaining >= 1
            self._buckets[key] = (remaining - is_allowed, now)
            if len(self._buckets) > MAX_KEYS:
                self._buckets.popitem(last=False)  # the least recently used one
        if not is_allowed:
            seconds = max(1, math.ceil((1 - remaining) / self._per_second))
            raise TooManyRequests(f"too many {noun}", f"try again in {seconds} s", seconds)


class FailedSignIns:
    """Limits failed sign-ins by address and records them in the audit log, without the credentials."""

    def __init__(self, units: UnitOfWorkFactory, clock: Callable[[], float]) -> None:
        self._units, self._clock = units, clock
        self._limiter = RateLimiter(burst=30, per_second=1.0, clock=clock)
        self._lock = threading.Lock()
        self._counts: dict[str, int] = {}  # failures by address since the address's last entry
        self._since = clock()

    def record(self, call: Call) -> None:
        """Record a failed sign-in. Raises `TooManyRequests` if the address exceeds the limit.

        Call this only after the credential was found to be invalid, so that nobody can lock out another user.
        """
        if self._clock() - self._since >= RECORDED_SECONDS:
            self.flush()
        with self._lock:
            is_first = call.address not in self._counts and len(self._counts) < MAX_ADDRESSES
            address = call.address if is_first or call.address in self._counts else OTHER_ADDRESSES
            # The first failure is recorded at once, all others together.
            self._counts[address] = 0 if is_first else self._counts.get(address, 0) + 1
        if is_first:
            self._write(call.address, 1, call.request_id)
        self._limiter.check(call.address, "failed sign-ins from this address")

    def flush(self) -> None:
        """Record the failures that were counted."""
        with self._lock:
            counts, self._counts, self._since = self._counts, {}, self._clock()
        for address, count in counts.items():
            if count:
                self._write(address, count)

    def _write(self, address: str, count: int, request_id: str = "") -> None:
        call = Call(principal=Principal("nobody", via="sign-in"), address=address, request_id=request_id)
        # The client must receive the same error if the database is busy or read-only.
        with contextlib.suppress(FairleadError), self._units.recording(call) as unit:
            platform = unit.tx.get(ScopeRecord, scope=PLATFORM)
            assert platform is not None, "the first start creates the platform"
            unit.audit("sign_in.fail", platform, "sign-in", PLATFORM, after={"failures": count})

"""Random faults for requests from a server to its cluster, reproducible with a seed."""

import os
import random
from collections import Counter
from dataclasses import dataclass, field

from tests.cluster.proxies import (
    ALWAYS,
    Action,
    Fault,
    Moment,
    ProxyHandler,
    drop,
    expire_watch,
    interrupt_after,
    respond_with,
)

# Every kind of request: its method, a pattern for its path, and the mean number of requests per fault.
CALLS: dict[str, tuple[str, str, int]] = {
    "watch": ("GET", "[?&]watch=true", 10),
    "list": ("GET", "[?](?!.*watch=true).*limit=", 8),
    "get": ("GET", "^[^?]*$", 4),
    "log": ("GET", "/log[?]", 10),
    "create": ("POST", "", 25),
    "release": ("PATCH", "", 10),
    "delete": ("DELETE", "", 10),
}
FREQUENCIES = {("watch", "watch expired"): 2}  # each one causes a new list request
OBSERVING_CALLS, CHANGING_CALLS = ("watch", "list", "log"), ("get", "create", "release", "delete", "log")
FAULTS: dict[str, tuple[Moment, Action]] = {
    "429": ("before", respond_with(429, retry_after=1)),
    "500": ("before", respond_with(500)),
    "403": ("before", respond_with(403)),
    "410": ("before", respond_with(410)),
    "dropped": ("before", drop),
}
# The worst fault: the request is executed, but the response is an error.
FAILED_AFTER_EXECUTION: dict[str, tuple[Moment, Action]] = {
    "500 after execution": ("after", respond_with(500)),
    "dropped after execution": ("after", drop),
}
INTERRUPTED: dict[str, tuple[Moment, Action]] = {"interrupted": ("after", interrupt_after(0.5))}
EXTRA_FAULTS: dict[str, dict[str, tuple[Moment, Action]]] = {
    "watch": INTERRUPTED | {"watch expired": ("before", expire_watch)},
    "log": INTERRUPTED,
    **dict.fromkeys(("create", "release", "delete"), FAILED_AFTER_EXECUTION),
}
SEED = "STORM_SEED"  # environment variable with the seed of a failed test, to reproduce it


def make_seed() -> int:
    """The seed from the environment, or a random one. Prints it, so that failures can be reproduced."""
    seed = int(os.environ.get(SEED) or random.SystemRandom().getrandbits(32))
    print(f"{SEED}={seed} reproduces this test")
    return seed


class Storm:
    """The random faults for a seed, and the number of times each was applied."""

    def __init__(self, seed: int) -> None:
        self.hits: Counter[tuple[str, str]] = Counter()
        self._rng = random.Random(seed)

    def make_faults(self, *calls: str) -> list[Fault]:
        """The faults for these kinds of requests."""
        return [
            _RandomFault(
                *(method, pattern, self._count(call, name, action), moment),
                times=ALWAYS,
                rng=self._rng,
                mean_interval=FREQUENCIES.get((call, name), mean_interval),
            )
            for call, (method, pattern, mean_interval) in CALLS.items()
            for name, (moment, action) in (FAULTS | EXTRA_FAULTS.get(call, {})).items()
            if call in calls
        ]

    def list_missing(self, *calls: str) -> list[tuple[str, str]]:
        """The faults that have not happened yet."""
        return [
            (call, name) for call in calls for name in FAULTS | EXTRA_FAULTS.get(call, {}) if not self.hits[call, name]
        ]

    def _count(self, call: str, name: str, action: Action) -> Action:
        def count_and_act(handler: ProxyHandler) -> None:
            self.hits[call, name] += 1
            action(handler)

        return count_and_act


@dataclass
class _RandomFault(Fault):
    """A fault for one in every `mean_interval` requests on average."""

    rng: random.Random = field(default_factory=random.Random)
    mean_interval: int = 1
    remaining: int = 0

    def __post_init__(self) -> None:
        self._choose_next()

    def applies_to(self, method: str, path: str, moment: Moment, content: bytes) -> bool:
        """Whether the fault applies to this request."""
        if not super().applies_to(method, path, moment, content):
            return False
        self.remaining -= 1
        if self.remaining:
            return False
        self._choose_next()
        return True

    def _choose_next(self) -> None:
        self.remaining = self.rng.randint(1, 2 * self.mean_interval)

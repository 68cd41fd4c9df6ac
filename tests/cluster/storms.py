"""Random faults for requests from a server to its cluster, reproducible with a seed."""

import os
import random
from collections import Counter
from dataclasses import dataclass, field

from tests.cluster.proxies import ALWAYS, Fault, Moment, Permission, Proxied, answer, break_after, drop, lose_thread

# Every kind of request: its method, what its address looks like, and of how many one meets each of its faults.
CALLS: dict[str, tuple[str, str, int]] = {
    "watch": ("GET", "[?&]watch=true", 10),
    "list": ("GET", "[?](?!.*watch=true).*limit=", 8),
    "get": ("GET", "^[^?]*$", 4),
    "log": ("GET", "/log[?]", 10),
    "create": ("POST", "", 25),
    "release": ("PATCH", "", 10),
    "delete": ("DELETE", "", 10),
}
OFTEN = {("watch", "thread lost"): 2}  # each makes a list
SEEING, DOING = ("watch", "list", "log"), ("get", "create", "release", "delete", "log")
FAULTS: dict[str, tuple[Moment, Permission]] = {
    "429": ("before", answer(429, retry_after=1)),
    "500": ("before", answer(500)),
    "403": ("before", answer(403)),
    "410": ("before", answer(410)),
    "dropped": ("before", drop),
}
# The worst fault: the request is executed, but the response is an error.
DONE: dict[str, tuple[Moment, Permission]] = {
    "500, and done": ("after", answer(500)),
    "dropped, and done": ("after", drop),
}
BROKEN: dict[str, tuple[Moment, Permission]] = {"broken off": ("after", break_after(0.5))}
MORE: dict[str, dict[str, tuple[Moment, Permission]]] = {
    "watch": BROKEN | {"thread lost": ("before", lose_thread)},
    "log": BROKEN,
    **dict.fromkeys(("create", "release", "delete"), DONE),
}
SEED = "STORM_SEED"  # a variable: the seed of dice that are to be thrown again


def make_seed() -> int:
    """A seed, which is printed if the test fails."""
    seed = int(os.environ.get(SEED) or random.SystemRandom().getrandbits(32))
    print(f"{SEED}={seed} throws the same dice again")
    return seed


class Storm:
    """The faults of a seed, and how often each befell a kind of request."""

    def __init__(self, seed: int) -> None:
        self.befell: Counter[tuple[str, str]] = Counter()
        self._dice = random.Random(seed)

    def make_faults(self, *calls: str) -> list[Fault]:
        """The faults for these kinds of requests."""
        return [
            _Gust(
                *(method, address, self._count(call, name, permission), moment),
                times=ALWAYS,
                dice=self._dice,
                one_of=OFTEN.get((call, name), one_of),
            )
            for call, (method, address, one_of) in CALLS.items()
            for name, (moment, permission) in (FAULTS | MORE.get(call, {})).items()
            if call in calls
        ]

    def list_missing(self, *calls: str) -> list[tuple[str, str]]:
        """The faults that have not happened yet."""
        return [(call, name) for call in calls for name in FAULTS | MORE.get(call, {}) if not self.befell[call, name]]

    def _count(self, call: str, name: str, permission: Permission) -> Permission:
        def counted(handler: Proxied) -> None:
            self.befell[call, name] += 1
            permission(handler)

        return counted


@dataclass
class _Gust(Fault):
    """A fault for one of every `often` requests on average."""

    dice: random.Random = field(default_factory=random.Random)
    one_of: int = 1
    left: int = 0

    def __post_init__(self) -> None:
        self._wait()

    def befalls(self, method: str, address: str, moment: Moment, content: bytes) -> bool:
        """Whether the fault applies to this request."""
        if not super().befalls(method, address, moment, content):
            return False
        self.left -= 1
        if self.left:
            return False
        self._wait()
        return True

    def _wait(self) -> None:
        self.left = self.dice.randint(1, 2 * self.one_of)

"""Whose turn it is: by priority, then by age; where quotas bound what runs hold together, quota by quota."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

from fairlead.core import quotas
from fairlead.core.quotas import UNITS, Allowance, Held, Load, Short
from fairlead.core.scope_tree import Tree
from fairlead.model.policies import Quota
from fairlead.model.queries import Condition
from fairlead.model.scopes import PLATFORM
from fairlead.model.states import State

HOUR = 3_600_000  # in milliseconds, by which ids begin: what one point of priority is worth
TIME = 12  # how many hex digits of an id are its time
QUOTA = "QuotaExceeded"  # the reason of those that wait for their turn
# Which runs count: those that have a place until they end, and not those that wait for one.
HOLDING = (Condition("active", "=", True), Condition("server_id", "!=", None))
WAITING = (
    Condition("active", "=", True),
    Condition("server_id", "=", None),
    Condition("state", "=", str(State.QUEUED)),
)
COUNTED_BY = ("scope", *Held._fields)

Tallies = Mapping[tuple[Any, ...], int]  # how many runs there are of each scope and what one of them holds


def queue_key(run_id: str, priority: int) -> str:
    """Where a run stands among those that wait: as if it had been submitted an hour earlier for each point.

    So who comes first with a higher priority does so for a bounded time alone, and nobody waits for ever.
    """
    if not priority:
        return run_id
    moved = max(int(run_id[:TIME], 16) - priority * HOUR, 0)
    return f"{moved:0{TIME}x}{run_id[TIME:]}"


@dataclass(frozen=True)
class QuotaLimits:
    """The quotas of an organization."""

    tree: Tree = field(default_factory=Tree)
    limits: Mapping[str, Mapping[str, int]] = field(default_factory=dict)  # by scope
    _paths: dict[str, tuple[str, ...]] = field(default_factory=dict, init=False, compare=False, repr=False)

    @classmethod
    def of(cls, tree: Tree, said: Iterable[tuple[str, Quota]]) -> Self:
        """The quotas of scopes, as far as they say anything."""
        return cls(tree, {scope: limits for scope, quota in said if (limits := quotas.limits_of(quota))})

    def on(self, scope: str) -> tuple[str, ...]:
        """The scopes whose quotas bound a run, from the platform down."""
        if not self.limits:
            return ()
        if scope not in self._paths:
            self._paths[scope] = tuple(place for place in self.tree.path(scope) if place in self.limits)
        return self._paths[scope]

    def within(self, *scopes: str) -> tuple[Condition, ...]:
        """What must hold of runs that are at or below one of some scopes."""
        if PLATFORM in scopes:
            return ()
        return (Condition("scope", "in", tuple({*scopes, *(place for at in scopes for place in self.tree.below(at))})),)

    def measure(self, tallies: Tallies) -> dict[str, Allowance]:
        """Each quota, with what is held of it."""
        used = dict.fromkeys(self.limits, quotas.NOTHING)
        for (scope, *held), number in tallies.items():
            for place in self.on(scope):
                used[place] = used[place].plus(Load.of(Held(*held), number))
        return {scope: Allowance(scope, limits, used[scope]) for scope, limits in self.limits.items()}


class Queue:
    """Quotas, while those that wait are looked at one after the other, the oldest first."""

    def __init__(self, allowances: Mapping[str, Allowance]) -> None:
        self.allowances = dict(allowances)
        self._led: set[str] = set()  # the scopes at which somebody is the first in line

    def find_short(self, asked: Load, path: Sequence[str]) -> list[Short]:
        """What a run lacks that is bound by the quotas of some scopes; nothing where it is its turn."""
        return quotas.find_short(asked, [self.allowances[scope] for scope in path])

    def take(self, asked: Load, path: Sequence[str]) -> None:
        """Count a run that was given a place."""
        for scope in path:
            allowance = self.allowances[scope]
            self.allowances[scope] = replace(allowance, used=allowance.used.plus(asked))

    def reserve_for_waiting(self, asked: Load, path: Sequence[str], lacking: Sequence[Short]) -> None:
        """Keep for a run what it lacks, so that nobody is let in before it who came later.

        For the first in line all that it asks for, or it might lack something else when its turn comes; also of the
        quotas further down, whose runs all wait for the same. What can never be has nothing kept for it.
        """
        if any(short.alone for short in lacking):
            return
        lacks = {(short.allowance.scope, short.part) for short in lacking}
        first = min(path.index(scope) for scope, _ in lacks)
        for scope in path[first:]:
            kept = asked
            if scope in self._led:
                kept = Load(**{part: getattr(asked, part) for part in UNITS if (scope, part) in lacks})
            self._led.add(scope)
            self._keep(kept, scope)

    def reserve(self, asked: Load, path: Sequence[str]) -> None:
        """Keep what a run asks for that is about to be given a place."""
        for scope in path:
            self._keep(asked, scope)

    def _keep(self, load: Load, scope: str) -> None:
        allowance = self.allowances[scope]
        self.allowances[scope] = replace(allowance, aside=allowance.aside.plus(load))

"""Where a run stands in a queue of its cluster: what it asks for, what is taken and by whom, and who is before it."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Party:
    """One that waits in a queue, or holds some of its quota, in billionths of each resource.

    `project` is empty where it is no run of this platform: nothing else is known of it then.
    """

    name: str = ""
    project: str = ""
    holds: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class QuotaUsage:
    """What a queue may use of a resource, in one flavor of it, and what is taken of that, in billionths."""

    resource: str
    flavor: str
    quota: int
    taken: int


@dataclass(frozen=True)
class Standing:
    """A run in a queue. `pool`: what the queue leads to, whose quota it is; empty where that is not known.

    `says`: why it waits, in the words of whoever lets runs go. `blind`: why not all of this can be seen.
    """

    pool: str = ""
    cohort: str = ""
    strict: bool = False  # nobody goes before those that have waited longer
    asks: Mapping[str, int] = field(default_factory=dict)
    shares: tuple[QuotaUsage, ...] = ()
    ahead: tuple[Party, ...] = ()
    holders: tuple[Party, ...] = ()
    waits: bool = False  # it has a place in the queue
    says: str = ""
    blind: str = ""

"""A run's position in one of its cluster's queues, with the queue's quotas and workloads."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class QueueWorkload:
    """A workload that waits in a queue or uses part of its quota.

    `project` is empty for workloads from other platforms, whose names are not known.
    """

    name: str = ""
    project: str = ""
    usage: Mapping[str, int] = field(default_factory=dict)  # in nanos, by resource


@dataclass(frozen=True)
class QuotaUsage:
    """A queue's quota for one resource in one flavor, with its usage, in nanos."""

    resource: str
    flavor: str
    quota: int
    used: int


@dataclass(frozen=True)
class QueuePosition:
    """A run in a queue. `pool` is the object that has the quota (ClusterQueue), or empty if unknown.

    `message` is the scheduler's own explanation. `unavailable` says why some of this data could not be read.
    """

    pool: str = ""
    cohort: str = ""  # ClusterQueues in a cohort can borrow unused quota from each other
    strict: bool = False  # StrictFIFO: later workloads never overtake earlier ones
    requests: Mapping[str, int] = field(default_factory=dict)  # in nanos, by resource
    quotas: tuple[QuotaUsage, ...] = ()
    ahead: tuple[QueueWorkload, ...] = ()  # only while the run is pending
    admitted: tuple[QueueWorkload, ...] = ()
    pending: bool = False  # also False if Kueue has not yet created a workload for the run
    message: str = ""
    unavailable: str = ""

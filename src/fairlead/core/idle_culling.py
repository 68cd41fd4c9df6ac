"""Idle culling: a workspace is idle if its URL is not used and its program uses almost no CPU."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from statistics import fmean
from typing import Any

from fairlead.model.quantities import Duration

STOPPED_BY, REASON = "fairlead", "Idle"  # `stopped_by` and reason of runs that were stopped because they were idle
BUSY_CORES = 0.05  # even idle notebook servers use a little CPU
RECENT = timedelta(minutes=1)
MIN_IDLE_TIMEOUT = Duration(300)  # the last use is only stored once per minute


def is_unused(idle_seconds: int, last_used_at: datetime | None, started_at: datetime | None, now: datetime) -> bool:
    """Whether the URL of a started run has not been used for at least `idle_seconds`."""
    # A workspace that is still waiting for a node is not idle.
    if started_at is None:
        return False
    # Any use before the start belongs to an earlier attempt.
    return now - max(last_used_at or started_at, started_at) >= timedelta(seconds=idle_seconds)


def is_idle(
    idle_seconds: int,
    last_used_at: datetime | None,
    started_at: datetime | None,
    samples: Sequence[Mapping[str, Any]],
    now: datetime,
) -> bool:
    """Whether a run's URL has been unused for `idle_seconds` and its CPU usage was below BUSY_CORES in that time.

    Both the average and the most recent CPU usage must be below it. If no sample is recent enough, the last one is
    used. Without samples, only the URL is considered.
    """
    if not is_unused(idle_seconds, last_used_at, started_at, now):
        return False
    since = now - timedelta(seconds=idle_seconds)
    within = [sample for sample in samples if sample["at"] > since] or list(samples[-1:])
    # The average over the whole period ignores short bursts. The recent average detects work that has just started.
    recent = [sample for sample in within if sample["at"] > now - RECENT] or within[-1:]
    return all(fmean(sample.get("cpu", 0.0) for sample in period) < BUSY_CORES for period in (within, recent) if period)


def describe_idle(idle_seconds: int) -> str:
    """The message of a run that was stopped because it was idle."""
    return f"stopped after {Duration(idle_seconds)} without use"

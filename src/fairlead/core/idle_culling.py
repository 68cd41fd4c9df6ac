"""Whether a workspace is idle: nobody uses its URL, and it does nothing by itself either."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from statistics import fmean
from typing import Any

from fairlead.model.quantities import Duration

BY, REASON = "fairlead", "Idle"  # who stops an idle run, and why, to match
BUSY_CORES = 0.05
LATELY = timedelta(minutes=1)
LEAST_IDLE = Duration(300)  # that somebody uses it is noted to the minute


def is_unused(idle_seconds: int, last_used_at: datetime | None, started_at: datetime | None, now: datetime) -> bool:
    """Whether nobody has used its URL for that long. One that has not started is not waited for."""
    if started_at is None:
        return False
    return now - max(last_used_at or started_at, started_at) >= timedelta(seconds=idle_seconds)


def is_idle(
    idle_seconds: int,
    last_used_at: datetime | None,
    started_at: datetime | None,
    samples: Sequence[Mapping[str, Any]],
    now: datetime,
) -> bool:
    """Whether nobody has used it for that long, and it took less than a twentieth of a core: all the while, and lately.

    Where nothing is measured, only its URL counts. Where nothing was for a while, the last that was measured.
    """
    if not is_unused(idle_seconds, last_used_at, started_at, now):
        return False
    since = now - timedelta(seconds=idle_seconds)
    within = [sample for sample in samples if sample["at"] > since] or list(samples[-1:])
    # All the while, or a moment's work would begin the time anew; lately, or it would be stopped in the midst of work.
    lately = [sample for sample in within if sample["at"] > now - LATELY] or within[-1:]
    return all(fmean(sample.get("cpu", 0.0) for sample in some) < BUSY_CORES for some in (within, lately) if some)


def describe_idle(idle_seconds: int) -> str:
    """Why an idle run was stopped, in a sentence."""
    return f"nobody used it for {Duration(idle_seconds)}"

"""Due times of schedules, including missed times, from a cron expression and a time zone."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import islice, takewhile
from zoneinfo import ZoneInfo, available_timezones

from cronsim import CronSim, CronSimError

from fairlead.model.parsing import short_repr, suggest_names
from fairlead.model.plans import Violation
from fairlead.model.records import ScheduleRecord
from fairlead.model.requests import Schedule

ALIASES = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
}
FIELDS = 5  # CronSim also accepts six fields, with seconds as the first one
GRACE_PERIOD = timedelta(minutes=1)  # after this delay, a due time counts as missed
MAX_MISSED = 100  # a schedule that runs every minute can miss 1,440 runs per day
FOLD = timedelta(hours=3)  # more than any daylight saving shift: local times repeat when clocks are set back
EXAMPLE = "0 6 * * *"


@dataclass(frozen=True)
class DueTimes:
    """The times that are due now, oldest first, and the next time."""

    times: tuple[datetime, ...]
    next_at: datetime | None


def find_violations(schedule: Schedule) -> Iterator[Violation]:
    """All violations in a schedule."""
    # ZoneInfo opens a file with this name, so only known names may be passed to it.
    known = schedule.timezone in _load_zones()
    if not known:
        hint = suggest_names(schedule.timezone, sorted(_load_zones()), "use a name such as Europe/Rome or UTC")
        yield Violation("schedule.timezone", "timezone", f"unknown time zone {short_repr(schedule.timezone)}", hint)
    try:
        # The date is fixed, because the result of a check must not depend on the clock.
        _iterate(schedule.cron, datetime(2024, 1, 1, tzinfo=UTC))
    except CronSimError as error:
        hint = f"use minute, hour, day, month and weekday, for example {EXAMPLE}, or @daily"
        message = f"invalid cron expression {short_repr(schedule.cron)} ({str(error).lower()})"
        yield Violation("schedule.cron", "cron", message, hint)
        return
    if known and next_after(schedule.cron, schedule.timezone, datetime(2024, 1, 1, tzinfo=UTC)) is None:
        yield Violation(
            "schedule.cron", "cron", f"{short_repr(schedule.cron)} never occurs", f"use an expression such as {EXAMPLE}"
        )


def next_after(cron: str, timezone: str, moment: datetime) -> datetime | None:
    """The first time after a moment, or None."""
    return next((time for time in _times(cron, timezone, moment) if time > moment), None)


def find_due(schedule: ScheduleRecord, now: datetime) -> DueTimes:
    """The times that are due now, with missed times (at most MAX_MISSED) if the schedule includes them."""
    cron, timezone, last_at = schedule.cron, schedule.timezone, schedule.last_at
    # If the clock is set back by a few seconds, the same time must not be due twice.
    since = last_at if last_at is not None and now < last_at <= now + GRACE_PERIOD else now
    next_at = next_after(cron, timezone, since)
    if schedule.paused or schedule.next_at is None:
        return DueTimes((), schedule.next_at)
    if schedule.next_at > now:  # may be far in the future if the clock was set back
        return DueTimes((), next_at)
    first = schedule.next_at
    # Times are listed backwards, because a schedule that runs every minute may have missed a whole year. The list
    # starts in the future, because right after clocks are set back, a time that has passed can have a later local time.
    back = (time for time in _times(cron, timezone, now + FOLD, reverse=True) if time <= now)
    # Without overlap, only one of the missed runs could start.
    most = MAX_MISSED if schedule.missed == "all" and schedule.overlap == "allow" else 1
    times = tuple(reversed(list(islice(takewhile(lambda time: time >= first, back), most))))
    if schedule.missed == "skip":
        times = tuple(time for time in times if now - time <= GRACE_PERIOD)
    return DueTimes(times, next_at)


def _times(cron: str, timezone: str, moment: datetime, *, reverse: bool = False) -> Iterator[datetime]:
    """The times after (or before) a moment, computed in the time zone and returned in UTC."""
    local_times = _iterate(cron, moment.astimezone(ZoneInfo(timezone)), reverse=reverse)
    return (time.astimezone(UTC) for time in local_times)


def _iterate(cron: str, moment: datetime, *, reverse: bool = False) -> CronSim:
    expression = ALIASES.get(cron.strip().lower(), cron)
    if len(expression.split()) != FIELDS:
        raise CronSimError(f"expected {FIELDS} fields, found {len(expression.split())}")
    return CronSim(expression.upper(), moment, reverse=reverse)


@cache
def _load_zones() -> frozenset[str]:
    """All time zone names except `localtime`, which differs between machines."""
    # Cached, because this searches the machine's time zone folders.
    return frozenset(available_timezones() - {"localtime"})

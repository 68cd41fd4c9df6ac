"""When a schedule is due: lines of cron in a time zone, and what becomes of the times that were missed."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import islice, takewhile
from zoneinfo import ZoneInfo, available_timezones

from cronsim import CronSim, CronSimError

from fairlead.core.drafts import Draft
from fairlead.model.parsing import short_repr, suggest_names
from fairlead.model.plans import Violation
from fairlead.model.records import ScheduleRecord
from fairlead.model.schedules import Schedule

ALIASES = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
}
FIELDS = 5  # a sixth would be seconds
LATE = timedelta(minutes=1)  # after that, a time was missed
MOST_MISSED = 100
FOLD = timedelta(hours=3)  # where clocks go back, what follows on them may be before what precedes
EXAMPLE = "0 6 * * *"


@dataclass(frozen=True)
class DueTimes:
    """The times at which a run is submitted now, the oldest first, and when it is due next."""

    times: tuple[datetime, ...]
    next_at: datetime | None


def check_schedule(draft: Draft) -> Iterator[Violation]:
    """A schedule must say times that come."""
    if draft.request.schedule is not None:
        yield from find_mistakes(draft.request.schedule)


def find_mistakes(schedule: Schedule) -> Iterator[Violation]:
    """What is wrong with a schedule."""
    known = schedule.timezone in _load_zones()
    if not known:
        hint = suggest_names(schedule.timezone, sorted(_load_zones()), "write one such as Europe/Rome or UTC")
        yield Violation("schedule.timezone", "timezone", f"there is no time zone {short_repr(schedule.timezone)}", hint)
    try:
        _open(schedule.cron, datetime(2024, 1, 1, tzinfo=UTC))
    except CronSimError as error:
        hint = f"write minute, hour, day, month and weekday, such as {EXAMPLE}, or @daily"
        message = f"is no line of cron: {short_repr(schedule.cron)} ({str(error).lower()})"
        yield Violation("schedule.cron", "cron", message, hint)
        return
    if known and next_after(schedule.cron, schedule.timezone, datetime(2024, 1, 1, tzinfo=UTC)) is None:
        yield Violation(
            "schedule.cron", "cron", f"{short_repr(schedule.cron)} never comes", f"write one such as {EXAMPLE}"
        )


def next_after(cron: str, timezone: str, moment: datetime) -> datetime | None:
    """The first time after a moment; None where none comes."""
    return next((time for time in _times(cron, timezone, moment) if time > moment), None)


def find_due(schedule: ScheduleRecord, now: datetime) -> DueTimes:
    """What is due by now. Of what was missed: nothing, the last time alone, or all of it as far as that is sensible."""
    cron, timezone, last_at = schedule.cron, schedule.timezone, schedule.last_at
    # A clock that is corrected by some seconds comes to the same time twice.
    since = last_at if last_at is not None and now < last_at <= now + LATE else now
    next_at = next_after(cron, timezone, since)
    if schedule.paused or schedule.next_at is None:
        return DueTimes((), schedule.next_at)
    if schedule.next_at > now:  # far away where the clock was set back
        return DueTimes((), next_at)
    first = schedule.next_at
    back = (time for time in _times(cron, timezone, now + FOLD, reverse=True) if time <= now)
    most = MOST_MISSED if schedule.missed == "all" and schedule.overlap == "allow" else 1
    times = tuple(reversed(list(islice(takewhile(lambda time: time >= first, back), most))))
    if schedule.missed == "skip":
        times = tuple(time for time in times if now - time <= LATE)
    return DueTimes(times, next_at)


def _times(cron: str, timezone: str, moment: datetime, *, reverse: bool = False) -> Iterator[datetime]:
    """The times after a moment, or before it, in the time zone of their clocks."""
    there = _open(cron, moment.astimezone(ZoneInfo(timezone)), reverse=reverse)
    return (time.astimezone(UTC) for time in there)


def _open(cron: str, moment: datetime, *, reverse: bool = False) -> CronSim:
    line = ALIASES.get(cron.strip().lower(), cron)
    if len(line.split()) != FIELDS:
        raise CronSimError(f"it has {len(line.split())} fields of {FIELDS}")
    return CronSim(line.upper(), moment, reverse=reverse)


@cache
def _load_zones() -> frozenset[str]:
    """Those that have the same name on every machine."""
    return frozenset(available_timezones() - {"localtime"})

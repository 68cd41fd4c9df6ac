"""When schedules are due."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.lifecycle import cron_times
from fairlead.lifecycle.cron_times import GRACE_PERIOD, MAX_MISSED
from fairlead.model.records import ScheduleRecord
from fairlead.model.requests import Schedule

NOW = datetime(2026, 11, 16, 12, 0, tzinfo=UTC)
CRON_EXPRESSIONS = (
    "0 6 * * *",
    "*/5 * * * *",
    "@hourly",
    "0 0 1 * *",
    "30 2 * * SUN",
    "15 10 L * *",
    "0 9 * * MON-FRI",
)
ZONES = ("UTC", "Europe/Rome", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe")


def make_schedule(cron: str = "0 6 * * *", **fields: object) -> ScheduleRecord:
    """A stored schedule."""
    stamps = {"created_by": "ada", "created_at": NOW, "updated_by": "ada", "updated_at": NOW}
    identity = {"scope": "project/forest", "name": "daily", "function": "train", "user": "ada", "request": {}}
    timing = {"cron": cron, "timezone": "UTC", "missed": "once", "overlap": "allow", "next_at": NOW}
    return ScheduleRecord(id="s1", **{**stamps, **identity, **timing, **fields})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("cron", "timezone", "after", "expected"),
    [
        ("0 6 * * *", "UTC", "2026-11-16T12:00Z", "2026-11-17T06:00Z"),
        ("0 6 * * *", "Europe/Rome", "2026-11-16T12:00Z", "2026-11-17T05:00Z"),
        ("0 6 * * *", "Europe/Rome", "2026-07-16T12:00Z", "2026-07-17T04:00Z"),
        ("0 6 * * *", "UTC", "2026-11-16T06:00Z", "2026-11-17T06:00Z"),
        ("@hourly", "UTC", "2026-11-16T12:00:01Z", "2026-11-16T13:00Z"),
        ("0 0 29 2 *", "UTC", "2026-11-16T12:00Z", "2028-02-29T00:00Z"),
        # A time in the hour skipped by daylight saving is due when it ends. A time in the repeated hour is due once.
        ("30 2 * * *", "Europe/Rome", "2026-03-28T12:00Z", "2026-03-29T01:00Z"),
        ("30 2 * * *", "Europe/Rome", "2026-10-25T00:30Z", "2026-10-26T01:30Z"),
    ],
)
def test_the_next_time_is_computed_in_the_time_zone(cron: str, timezone: str, after: str, expected: str) -> None:
    next_time = cron_times.next_after(cron, timezone, datetime.fromisoformat(after))
    assert next_time == datetime.fromisoformat(expected)


@given(
    st.sampled_from(CRON_EXPRESSIONS), st.sampled_from(ZONES), st.datetimes(datetime(2000, 1, 1), datetime(2099, 1, 1))
)
def test_the_next_time_is_later_and_on_the_minute(cron: str, timezone: str, moment: datetime) -> None:
    after = moment.replace(tzinfo=UTC)
    next_time = cron_times.next_after(cron, timezone, after)
    assert next_time is not None
    assert next_time > after
    assert (next_time.second, next_time.microsecond) == (0, 0)


@pytest.mark.parametrize(
    ("fields", "path", "message"),
    [
        ({"cron": "daily"}, "schedule.cron", "invalid cron expression 'daily' (expected 5 fields, found 1)"),
        ({"cron": "0 0 6 * * *"}, "schedule.cron", "expected 5 fields, found 6"),
        ({"cron": "61 * * * *"}, "schedule.cron", "bad minute"),
        ({"cron": "0 0 31 2 *"}, "schedule.cron", "bad day-of-month"),
        ({"cron": ""}, "schedule.cron", "expected 5 fields, found 0"),
        ({"cron": "0 6 * * *", "timezone": "Europe/Rom"}, "schedule.timezone", "unknown time zone 'Europe/Rom'"),
        ({"cron": "0 6 * * *", "timezone": "../../etc/passwd"}, "schedule.timezone", "unknown time zone"),
        ({"cron": "0 6 * * *", "timezone": "Europe"}, "schedule.timezone", "unknown time zone 'Europe'"),
        ({"cron": "0 6 * * *", "timezone": ""}, "schedule.timezone", "unknown time zone ''"),
    ],
)
def test_an_invalid_schedule_is_rejected_with_a_hint(fields: dict[str, str], path: str, message: str) -> None:
    (violation,) = cron_times.find_violations(Schedule.model_validate(fields))
    assert violation.path == path
    assert message in violation.message
    assert violation.hint


def test_the_hint_contains_the_nearest_time_zone() -> None:
    (violation,) = cron_times.find_violations(Schedule(cron="@daily", timezone="Europe/Rom"))
    assert "Europe/Rome" in (violation.hint or "")


@pytest.mark.parametrize("missed", ["skip", "once", "all"])
def test_a_due_time_is_returned_once(missed: str) -> None:
    schedule = make_schedule("0 12 * * *", missed=missed, next_at=NOW)
    due = cron_times.find_due(schedule, NOW + timedelta(seconds=2))
    assert due.times == (NOW,)
    assert due.next_at == NOW + timedelta(days=1)


@pytest.mark.parametrize(("missed", "count"), [("skip", 0), ("once", 1), ("all", 3)])
def test_missed_times_are_skipped_submitted_once_or_all(missed: str, count: int) -> None:
    schedule = make_schedule("0 6 * * *", missed=missed, next_at=NOW.replace(day=14, hour=6))
    due = cron_times.find_due(schedule, NOW)
    assert due.times == tuple(NOW.replace(day=day, hour=6) for day in (14, 15, 16))[3 - count :]
    assert due.next_at == NOW.replace(day=17, hour=6)


def test_the_number_of_missed_times_is_limited() -> None:
    schedule = make_schedule("* * * * *", missed="all", next_at=NOW - timedelta(days=365))
    due = cron_times.find_due(schedule, NOW)
    assert len(due.times) == MAX_MISSED
    assert due.times[-1] == NOW


@pytest.mark.parametrize("changed", [{"paused": True}, {"next_at": None}, {"next_at": NOW + timedelta(minutes=1)}])
def test_nothing_is_due_before_the_next_time_or_while_paused(changed: dict[str, object]) -> None:
    schedule = make_schedule("* * * * *", **changed)
    assert cron_times.find_due(schedule, NOW) == cron_times.DueTimes((), schedule.next_at)


def test_times_are_not_repeated_when_daylight_saving_ends() -> None:
    first = datetime(2025, 10, 26, 0, 30, tzinfo=UTC)
    schedule = make_schedule("30 2 * * *", timezone="Europe/Rome", last_at=first, next_at=first + timedelta(hours=25))
    later = datetime(2025, 10, 26, 1, 10, tzinfo=UTC)  # 02:10 local time, for the second time
    assert cron_times.find_due(schedule, later) == cron_times.DueTimes((), schedule.next_at)
    missed = make_schedule("30 2 * * *", timezone="Europe/Rome", next_at=first)
    assert cron_times.find_due(missed, later) == cron_times.DueTimes((first,), schedule.next_at)


def test_the_upcoming_time_does_not_count_as_missed() -> None:
    schedule = make_schedule("0 12 * * *", next_at=NOW - timedelta(days=1))
    due = cron_times.find_due(schedule, NOW - timedelta(seconds=0.5))
    assert due == cron_times.DueTimes((NOW - timedelta(days=1),), NOW)


def test_only_the_last_missed_time_is_due_if_runs_must_not_overlap() -> None:
    schedule = make_schedule("0 * * * *", missed="all", overlap="skip", next_at=NOW - timedelta(hours=9))
    assert cron_times.find_due(schedule, NOW).times == (NOW,)


def test_small_clock_corrections_do_not_repeat_a_time() -> None:
    schedule = make_schedule("0 12 * * *", last_at=NOW, next_at=NOW + timedelta(days=1))
    assert cron_times.find_due(schedule, NOW - timedelta(seconds=30)).next_at == schedule.next_at
    assert cron_times.find_due(schedule, NOW - timedelta(hours=2)).next_at == NOW


DAYS_BEFORE_CLOCK_CHANGES = [datetime(2025, 10, 25), datetime(2026, 3, 28), datetime(2026, 4, 4)]


@given(
    st.sampled_from(CRON_EXPRESSIONS),
    st.sampled_from(["skip", "once", "all"]),
    st.sampled_from(["UTC", "Europe/Rome", "Australia/Lord_Howe"]),
    st.datetimes(datetime(2025, 10, 24), datetime(2025, 10, 28))
    | st.datetimes(datetime(2026, 3, 27), datetime(2026, 4, 7)),
    st.lists(st.integers(1, 5400) | st.integers(1, 5 * 86400), max_size=20),
)
def test_no_time_is_due_twice_at_any_check_times(
    cron: str, missed: str, timezone: str, start: datetime, intervals: list[int]
) -> None:
    now, times = start.replace(tzinfo=UTC), list[datetime]()
    options: dict[str, object] = {"missed": missed, "timezone": timezone}
    schedule = make_schedule(cron, **options, next_at=cron_times.next_after(cron, timezone, now))
    for seconds in intervals:
        now += timedelta(seconds=seconds)
        due = cron_times.find_due(schedule, now)
        times += due.times
        assert all(time <= now for time in due.times)
        assert missed != "skip" or all(now - time <= GRACE_PERIOD for time in due.times)
        assert due.next_at is None or due.next_at > now
        schedule = make_schedule(cron, **options, next_at=due.next_at, last_at=times[-1] if times else None)
    assert times == sorted(set(times))

"""When schedules are due."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.core import cron_times
from fairlead.core.cron_times import GRACE_PERIOD, MAX_MISSED
from fairlead.model.records import ScheduleRecord
from fairlead.model.schedules import Schedule

NOW = datetime(2026, 11, 16, 12, 0, tzinfo=UTC)
LINES = ("0 6 * * *", "*/5 * * * *", "@hourly", "0 0 1 * *", "30 2 * * SUN", "15 10 L * *", "0 9 * * MON-FRI")
ZONES = ("UTC", "Europe/Rome", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe")


def make_schedule(cron: str = "0 6 * * *", **fields: object) -> ScheduleRecord:
    """A stored schedule."""
    stamps = {"created_by": "ada", "created_at": NOW, "updated_by": "ada", "updated_at": NOW}
    of_it = {"scope": "project/forest", "name": "daily", "function": "train", "user": "ada", "request": {}}
    how = {"cron": cron, "timezone": "UTC", "missed": "once", "overlap": "allow", "next_at": NOW}
    return ScheduleRecord(id="s1", **{**stamps, **of_it, **how, **fields})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("cron", "timezone", "after", "expected"),
    [
        ("0 6 * * *", "UTC", "2026-11-16T12:00Z", "2026-11-17T06:00Z"),
        ("0 6 * * *", "Europe/Rome", "2026-11-16T12:00Z", "2026-11-17T05:00Z"),
        ("0 6 * * *", "Europe/Rome", "2026-07-16T12:00Z", "2026-07-17T04:00Z"),
        ("0 6 * * *", "UTC", "2026-11-16T06:00Z", "2026-11-17T06:00Z"),
        ("@hourly", "UTC", "2026-11-16T12:00:01Z", "2026-11-16T13:00Z"),
        ("0 0 29 2 *", "UTC", "2026-11-16T12:00Z", "2028-02-29T00:00Z"),
        # The hour that is left out when clocks go forward: at its end. The one that comes twice: once.
        ("30 2 * * *", "Europe/Rome", "2026-03-28T12:00Z", "2026-03-29T01:00Z"),
        ("30 2 * * *", "Europe/Rome", "2026-10-25T00:30Z", "2026-10-26T01:30Z"),
    ],
)
def test_the_next_time_is_that_of_the_clocks_of_its_zone(cron: str, timezone: str, after: str, expected: str) -> None:
    found = cron_times.next_after(cron, timezone, datetime.fromisoformat(after))
    assert found == datetime.fromisoformat(expected)


@given(st.sampled_from(LINES), st.sampled_from(ZONES), st.datetimes(datetime(2000, 1, 1), datetime(2099, 1, 1)))
def test_the_next_time_is_later_and_on_the_minute(cron: str, timezone: str, moment: datetime) -> None:
    after = moment.replace(tzinfo=UTC)
    found = cron_times.next_after(cron, timezone, after)
    assert found is not None
    assert found > after
    assert (found.second, found.microsecond) == (0, 0)


@pytest.mark.parametrize(
    ("said", "path", "message"),
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
def test_what_is_wrong_with_a_schedule_is_told_with_a_suggestion(said: dict[str, str], path: str, message: str) -> None:
    (found,) = cron_times.find_violations(Schedule.model_validate(said))
    assert found.path == path
    assert message in found.message
    assert found.hint


def test_the_nearest_time_zone_is_told() -> None:
    (found,) = cron_times.find_violations(Schedule(cron="@daily", timezone="Europe/Rom"))
    assert "Europe/Rome" in (found.hint or "")


@pytest.mark.parametrize("missed", ["skip", "once", "all"])
def test_what_is_due_now_is_submitted_once(missed: str) -> None:
    schedule = make_schedule("0 12 * * *", missed=missed, next_at=NOW)
    due = cron_times.find_due(schedule, NOW + timedelta(seconds=2))
    assert due.times == (NOW,)
    assert due.next_at == NOW + timedelta(days=1)


@pytest.mark.parametrize(("missed", "count"), [("skip", 0), ("once", 1), ("all", 3)])
def test_what_was_missed_is_left_out_submitted_once_or_made_up_for(missed: str, count: int) -> None:
    schedule = make_schedule("0 6 * * *", missed=missed, next_at=NOW.replace(day=14, hour=6))
    due = cron_times.find_due(schedule, NOW)
    assert due.times == tuple(NOW.replace(day=day, hour=6) for day in (14, 15, 16))[3 - count :]
    assert due.next_at == NOW.replace(day=17, hour=6)


def test_after_a_year_not_all_that_was_missed_is_made_up_for() -> None:
    schedule = make_schedule("* * * * *", missed="all", next_at=NOW - timedelta(days=365))
    due = cron_times.find_due(schedule, NOW)
    assert len(due.times) == MAX_MISSED
    assert due.times[-1] == NOW


@pytest.mark.parametrize("changed", [{"paused": True}, {"next_at": None}, {"next_at": NOW + timedelta(minutes=1)}])
def test_before_its_time_nothing_is_due(changed: dict[str, object]) -> None:
    schedule = make_schedule("* * * * *", **changed)
    assert cron_times.find_due(schedule, NOW) == cron_times.DueTimes((), schedule.next_at)


def test_where_clocks_go_back_no_time_comes_twice_or_is_in_the_past() -> None:
    first = datetime(2025, 10, 26, 0, 30, tzinfo=UTC)
    schedule = make_schedule("30 2 * * *", timezone="Europe/Rome", last_at=first, next_at=first + timedelta(hours=25))
    later = datetime(2025, 10, 26, 1, 10, tzinfo=UTC)  # ten past two, again
    assert cron_times.find_due(schedule, later) == cron_times.DueTimes((), schedule.next_at)
    missed = make_schedule("30 2 * * *", timezone="Europe/Rome", next_at=first)
    assert cron_times.find_due(missed, later) == cron_times.DueTimes((first,), schedule.next_at)


def test_what_was_missed_is_not_the_time_that_is_about_to_come() -> None:
    schedule = make_schedule("0 12 * * *", next_at=NOW - timedelta(days=1))
    due = cron_times.find_due(schedule, NOW - timedelta(seconds=0.5))
    assert due == cron_times.DueTimes((NOW - timedelta(days=1),), NOW)


def test_of_what_was_missed_only_the_last_time_counts_where_runs_are_not_to_overlap() -> None:
    schedule = make_schedule("0 * * * *", missed="all", overlap="skip", next_at=NOW - timedelta(hours=9))
    assert cron_times.find_due(schedule, NOW).times == (NOW,)


def test_a_clock_that_is_corrected_by_seconds_does_not_come_to_a_time_twice() -> None:
    schedule = make_schedule("0 12 * * *", last_at=NOW, next_at=NOW + timedelta(days=1))
    assert cron_times.find_due(schedule, NOW - timedelta(seconds=30)).next_at == schedule.next_at
    assert cron_times.find_due(schedule, NOW - timedelta(hours=2)).next_at == NOW


CHANGES = [datetime(2025, 10, 25), datetime(2026, 3, 28), datetime(2026, 4, 4)]  # days before clocks are changed


@given(
    st.sampled_from(LINES),
    st.sampled_from(["skip", "once", "all"]),
    st.sampled_from(["UTC", "Europe/Rome", "Australia/Lord_Howe"]),
    st.datetimes(datetime(2025, 10, 24), datetime(2025, 10, 28))
    | st.datetimes(datetime(2026, 3, 27), datetime(2026, 4, 7)),
    st.lists(st.integers(1, 5400) | st.integers(1, 5 * 86400), max_size=20),
)
def test_no_time_is_due_twice_however_the_looks_fall(
    cron: str, missed: str, timezone: str, begins: datetime, looks: list[int]
) -> None:
    now, times = begins.replace(tzinfo=UTC), list[datetime]()
    how: dict[str, object] = {"missed": missed, "timezone": timezone}
    schedule = make_schedule(cron, **how, next_at=cron_times.next_after(cron, timezone, now))
    for seconds in looks:
        now += timedelta(seconds=seconds)
        due = cron_times.find_due(schedule, now)
        times += due.times
        assert all(time <= now for time in due.times)
        assert missed != "skip" or all(now - time <= GRACE_PERIOD for time in due.times)
        assert due.next_at is None or due.next_at > now
        schedule = make_schedule(cron, **how, next_at=due.next_at, last_at=times[-1] if times else None)
    assert times == sorted(set(times))

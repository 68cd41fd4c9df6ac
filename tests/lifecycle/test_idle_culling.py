"""When a workspace is idle."""

from datetime import UTC, datetime, timedelta

import pytest

from fairlead.lifecycle.lifecycle import describe_idle, is_idle, is_unused

NOW = datetime(2026, 11, 15, 12, tzinfo=UTC)
HALF_AN_HOUR = 1800


def ago(minutes: float) -> datetime:
    return NOW - timedelta(minutes=minutes)


def make_samples(*cores: float, every_minutes: float = 1.0) -> list[dict[str, object]]:
    """CPU samples up to now, the oldest first."""
    return [{"at": ago(every_minutes * (len(cores) - 1 - index)), "cpu": used} for index, used in enumerate(cores)]


@pytest.mark.parametrize(("used", "started", "unused"), [
    (None, 31, True),
    (None, 29, False),
    (31, 100, True),
    (30, 100, True),
    (29, 100, False),
    (100, 29, False),  # used before the restart
    (None, None, False),
])  # fmt: skip
def test_a_run_is_unused_after_the_idle_time_without_use(
    used: float | None, started: float | None, unused: bool
) -> None:
    last_used_at, started_at = (None if minutes is None else ago(minutes) for minutes in (used, started))
    assert is_unused(HALF_AN_HOUR, last_used_at, started_at, NOW) is unused
    assert is_idle(HALF_AN_HOUR, last_used_at, started_at, [], NOW) is unused


@pytest.mark.parametrize(("cores", "idle"), [
    ([0.0] * 40, True),
    ([0.049] * 40, True),
    ([0.05] * 40, False),
    ([1.0] * 9 + [0.0] * 31, True),  # before the last half hour
    ([0.0] * 20 + [1.0] + [0.0] * 19, True),  # a short peak
    ([0.0] * 20 + [1.0] * 5 + [0.0] * 15, False),  # a longer peak
    ([0.0] * 39 + [1.0], False),  # busy now
])  # fmt: skip
def test_a_run_that_uses_cpu_is_not_idle(cores: list[float], idle: bool) -> None:
    assert is_idle(HALF_AN_HOUR, None, ago(600), make_samples(*cores), NOW) is idle


def test_sparse_samples_are_judged_by_the_latest_one() -> None:
    old = [{"at": ago(28), "cpu": 0.0}, {"at": ago(5), "cpu": 0.06}]
    assert not is_idle(HALF_AN_HOUR, None, ago(600), old, NOW)
    assert is_idle(HALF_AN_HOUR, None, ago(600), [*old[:1], {**old[1], "cpu": 0.04}], NOW)


def test_old_samples_are_judged_by_the_latest_one() -> None:
    long_ago = [{"at": ago(120), "cpu": 0.0}, {"at": ago(90), "cpu": 8.0}]
    assert not is_idle(HALF_AN_HOUR, None, ago(600), long_ago, NOW)
    assert is_idle(HALF_AN_HOUR, None, ago(600), long_ago[:1], NOW)


def test_a_run_in_use_is_not_idle_even_without_cpu_usage() -> None:
    assert not is_idle(HALF_AN_HOUR, ago(1), ago(600), make_samples(*[0.0] * 40), NOW)


@pytest.mark.parametrize(("seconds", "duration"), [(1800, "30m"), (5400, "1h30m"), (45, "45s")])
def test_the_message_contains_the_idle_time(seconds: int, duration: str) -> None:
    assert describe_idle(seconds) == f"stopped after {duration} without use"

"""Properties of the queue order within a project."""

from datetime import UTC, datetime, timedelta

from hypothesis import assume, given
from hypothesis import strategies as st

from fairlead.model.requests import MAX_PRIORITY
from fairlead.scheduling.queue_order import queue_key

NOW = datetime(2027, 1, 15, tzinfo=UTC)
PRIORITIES = st.integers(-MAX_PRIORITY, MAX_PRIORITY)
IDS = st.text("0123456789abcdef", min_size=32, max_size=32)


@given(PRIORITIES, PRIORITIES, IDS, IDS)
def test_a_higher_priority_comes_first(one: int, other: int, first_id: str, second_id: str) -> None:
    keys = queue_key(NOW, first_id, one), queue_key(NOW, second_id, other)
    assume(one != other)
    assert (keys[0] < keys[1]) == (one > other)


@given(PRIORITIES, st.integers(1, 10**9), IDS, IDS)
def test_the_older_run_of_equal_priority_comes_first_whatever_its_id(
    priority: int, later: int, first_id: str, second_id: str
) -> None:
    assert queue_key(NOW, first_id, priority) < queue_key(NOW + timedelta(milliseconds=later), second_id, priority)


@given(PRIORITIES, PRIORITIES, IDS, IDS)
def test_priority_does_not_overtake_runs_that_are_hours_older(
    one: int, other: int, first_id: str, second_id: str
) -> None:
    later = NOW + timedelta(hours=max(other - one, 0), milliseconds=1)
    assert queue_key(NOW, first_id, one) < queue_key(later, second_id, other)


@given(st.integers(0, 10**6), PRIORITIES)
def test_very_old_times_give_valid_queue_keys(milliseconds: int, priority: int) -> None:
    submitted_at = datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=milliseconds)
    assert len(queue_key(submitted_at, "0" * 32, priority)) == 44

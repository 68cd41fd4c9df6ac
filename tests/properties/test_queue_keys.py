"""Properties of the queue order."""

from hypothesis import assume, given
from hypothesis import strategies as st

from fairlead.model.requests import MAX_PRIORITY
from fairlead.scheduling.queue_order import queue_key

HOUR = 3_600_000
NOW = 1_800_000_000_000
PRIORITIES = st.integers(-MAX_PRIORITY, MAX_PRIORITY)
TAILS = st.text("0123456789abcdef", min_size=20, max_size=20)


def id_at(milliseconds: int, tail: str = "0" * 20) -> str:
    """The ID of a run that was submitted at the given time."""
    return f"{milliseconds:012x}{tail}"


@given(TAILS)
def test_the_queue_key_without_priority_is_the_run_id(tail: str) -> None:
    assert queue_key(id_at(NOW, tail), 0) == id_at(NOW, tail)


@given(PRIORITIES, PRIORITIES, TAILS, TAILS)
def test_a_higher_priority_comes_first(one: int, other: int, first_tail: str, second_tail: str) -> None:
    keys = queue_key(id_at(NOW, first_tail), one), queue_key(id_at(NOW, second_tail), other)
    assume(one != other)
    assert (keys[0] < keys[1]) == (one > other)


@given(PRIORITIES, st.integers(1, 10**9), TAILS, TAILS)
def test_the_older_run_of_equal_priority_comes_first(
    priority: int, later: int, first_tail: str, second_tail: str
) -> None:
    assert queue_key(id_at(NOW, first_tail), priority) < queue_key(id_at(NOW + later, second_tail), priority)


@given(PRIORITIES, PRIORITIES, TAILS, TAILS)
def test_priority_does_not_overtake_runs_that_are_hours_older(
    one: int, other: int, first_tail: str, second_tail: str
) -> None:
    later = NOW + (max(other - one, 0) * HOUR) + 1
    assert queue_key(id_at(NOW, first_tail), one) < queue_key(id_at(later, second_tail), other)


@given(st.integers(0, 10**6), PRIORITIES)
def test_very_old_ids_give_valid_queue_keys(milliseconds: int, priority: int) -> None:
    assert len(queue_key(id_at(milliseconds), priority)) == 32

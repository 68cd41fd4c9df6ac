"""Properties of the queue order."""

from hypothesis import assume, given
from hypothesis import strategies as st

from fairlead.core.queue_order import queue_key
from fairlead.model.requests import MAX_PRIORITY

HOUR = 3_600_000
NOW = 1_800_000_000_000
PRIORITIES = st.integers(-MAX_PRIORITY, MAX_PRIORITY)
TAILS = st.text("0123456789abcdef", min_size=20, max_size=20)


def id_at(milliseconds: int, tail: str = "0" * 20) -> str:
    """The id of a run that was submitted at a time."""
    return f"{milliseconds:012x}{tail}"


@given(TAILS)
def test_without_a_priority_it_stands_where_it_was_submitted(tail: str) -> None:
    assert queue_key(id_at(NOW, tail), 0) == id_at(NOW, tail)


@given(PRIORITIES, PRIORITIES, TAILS, TAILS)
def test_of_two_at_once_the_higher_priority_comes_first(one: int, other: int, mine: str, theirs: str) -> None:
    turns = queue_key(id_at(NOW, mine), one), queue_key(id_at(NOW, theirs), other)
    assume(one != other)
    assert (turns[0] < turns[1]) == (one > other)


@given(PRIORITIES, st.integers(1, 10**9), TAILS, TAILS)
def test_of_the_same_priority_the_older_comes_first(priority: int, later: int, mine: str, theirs: str) -> None:
    assert queue_key(id_at(NOW, mine), priority) < queue_key(id_at(NOW + later, theirs), priority)


@given(PRIORITIES, PRIORITIES, TAILS, TAILS)
def test_nobody_is_overtaken_by_what_is_submitted_hours_later(one: int, other: int, mine: str, theirs: str) -> None:
    later = NOW + (max(other - one, 0) * HOUR) + 1
    assert queue_key(id_at(NOW, mine), one) < queue_key(id_at(later, theirs), other)


@given(st.integers(0, 10**6), PRIORITIES)
def test_long_ago_is_early_enough(milliseconds: int, priority: int) -> None:
    assert len(queue_key(id_at(milliseconds), priority)) == 32

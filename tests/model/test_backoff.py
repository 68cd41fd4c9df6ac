"""Exponential backoff."""

from fairlead.backoff import Backoff


def test_pause_doubles_up_to_the_longest() -> None:
    assert [Backoff(2, 15).pause(failures) for failures in range(5)] == [2, 4, 8, 15, 15]


def test_pause_stays_the_longest_in_a_long_outage() -> None:
    assert Backoff(0.2, 10.0).pause(10**6) == 10

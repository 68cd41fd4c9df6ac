"""Retries after concurrent changes to an object."""

import pytest

from fairlead.errors import Changed
from fairlead.services.transactions.unit_of_work import MAX_ATTEMPTS, Call, retry_on_conflict


class Busy:
    """An object that changes concurrently a given number of times."""

    def __init__(self, times: int) -> None:
        self.times = times

    def __call__(self) -> str:
        self.times -= 1
        if self.times >= 0:
            raise Changed("it was changed concurrently")
        return "done"


def test_request_without_a_revision_is_retried_after_a_conflict() -> None:
    assert retry_on_conflict(Call(), Busy(MAX_ATTEMPTS - 1)) == "done"
    with pytest.raises(Changed):
        retry_on_conflict(Call(), Busy(MAX_ATTEMPTS))


def test_request_with_a_revision_is_not_retried() -> None:
    with pytest.raises(Changed):
        retry_on_conflict(Call(revision=3), Busy(1))

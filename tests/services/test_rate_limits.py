"""Rate limits, and failed sign-ins in the audit log."""

import pytest

from fairlead.errors import TooManyRequests, Unauthenticated
from fairlead.model.project_objects import TokenRequest
from fairlead.model.records import AuditRecord
from fairlead.services.access.rate_limits import MAX_KEYS, RateLimiter
from fairlead.services.access.tokens import Tokens
from fairlead.services.transactions.unit_of_work import Call
from tests.services.worlds import World, call_as


class Clock:
    """A clock that only moves when a test says so."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_bucket_refills_at_its_rate() -> None:
    clock = Clock()
    limiter = RateLimiter(burst=3, per_second=0.5, clock=clock)
    for _ in range(3):
        limiter.check("ann", "requests")
    with pytest.raises(TooManyRequests) as caught:
        limiter.check("ann", "requests")
    assert caught.value.retry_after_seconds == 2
    limiter.check("bob", "requests")
    clock.now += 2
    limiter.check("ann", "requests")
    with pytest.raises(TooManyRequests):
        limiter.check("ann", "requests")


def test_number_of_buckets_is_limited() -> None:
    limiter = RateLimiter(burst=1, per_second=1.0, clock=Clock())
    limiter.check("first", "requests")
    for number in range(MAX_KEYS):
        limiter.check(str(number), "requests")
    limiter.check("first", "requests")


def fail(tokens: Tokens, address: str, times: int = 1) -> list[str]:
    """Sign in with an invalid token, and return the codes of the errors."""
    codes = []
    for _ in range(times):
        with pytest.raises((Unauthenticated, TooManyRequests)) as caught:
            tokens.sign_in(Call(address=address), "fl_wrong")
        codes.append(caught.value.code)
    return codes


def entries(world: World) -> list[tuple[str, int]]:
    """The address and the number of failures of each entry."""
    with world.store.reading() as tx:
        failed = [entry for entry in tx.find(AuditRecord) if entry.action == "sign_in.fail"]
    assert all("fl_wrong" not in str(entry) for entry in failed)
    return sorted((entry.address, (entry.after or {})["failures"]) for entry in failed)


def test_failed_sign_ins_are_limited_by_address_but_valid_tokens_are_always_accepted(world: World) -> None:
    tokens = world.services.tokens
    assert fail(tokens, "192.0.2.1", 40) == ["unauthenticated"] * 30 + ["too_many_requests"] * 10
    assert fail(tokens, "192.0.2.2") == ["unauthenticated"]
    token = tokens.create(call_as("ann"), TokenRequest(name="one")).token
    assert tokens.sign_in(Call(address="192.0.2.1"), token or "").user == "ann"


def test_failed_sign_ins_of_an_address_share_audit_entries(world: World) -> None:
    fail(world.services.tokens, "192.0.2.1", 500)
    fail(world.services.tokens, "192.0.2.2")
    assert entries(world) == [("192.0.2.1", 1), ("192.0.2.2", 1)]
    world.services.tokens.failures.flush()
    assert entries(world) == [("192.0.2.1", 1), ("192.0.2.1", 499), ("192.0.2.2", 1)]
    world.services.tokens.failures.flush()
    assert len(entries(world)) == 3


def test_many_addresses_cannot_flood_the_audit_log(world: World) -> None:
    for number in range(200):
        fail(world.services.tokens, f"192.0.2.{number}")
    world.services.tokens.failures.flush()
    recorded = entries(world)
    assert len(recorded) == 21
    assert recorded[0] == ("", 180)


def test_new_tokens_links_and_sessions_are_limited_by_user(world: World) -> None:
    tokens = world.services.tokens
    token = tokens.create(call_as("ann"), TokenRequest(name="one")).token or ""
    for _ in range(119):
        tokens.make_link(Call(bearer=token))
    with pytest.raises(TooManyRequests):
        tokens.make_link(Call(bearer=token))
    with pytest.raises(TooManyRequests):
        tokens.create(call_as("ann"), TokenRequest(name="two"))
    with pytest.raises(TooManyRequests):
        tokens.sign_in(Call(), token)
    assert tokens.create(call_as("bob"), TokenRequest(name="one")).user == "bob"
